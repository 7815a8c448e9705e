import { type AsnType, fromBER, Integer, OctetString, Primitive, Sequence } from 'asn1js';
import { LdapError } from '../ldap/ldap-error.js';
import { SEQUENCE } from './tags.js';
import { Writer } from './writer.js';

/** Reads and writes values of controls and extended operations. Errors are LdapError `protocolError`. */

/** Limits for parsing untrusted values with `fromBER`. The content of octet strings is not parsed. */
const PARSE_LIMITS = { maxDepth: 8, maxNodes: 64, parseEmbedded: false, copyInput: false };

const CONTEXT_CLASS = 3;

function malformedError(label: string, reason: string, cause?: unknown): LdapError {
  return new LdapError('protocolError', `${label}: ${reason}`, { cause });
}

/** Parses a value that consists of one SEQUENCE and returns its components. Refuses values of more than `maxBytes`. */
export function readSequence(value: Buffer | undefined, label: string, maxBytes: number): readonly AsnType[] {
  if (value === undefined) throw malformedError(label, 'the value is missing');
  if (value.length > maxBytes)
    throw malformedError(label, `a value of ${value.length} bytes; ${maxBytes} are accepted`);
  const { offset, result } = parse(value, label);
  if (offset === -1) throw malformedError(label, 'the value is not BER');
  if (offset !== value.length) throw malformedError(label, `${value.length - offset} bytes follow the value`);
  if (!(result instanceof Sequence)) throw malformedError(label, 'the value is not a SEQUENCE');
  if (result.lenBlock.isIndefiniteForm) throw malformedError(label, 'the value has an indefinite length');
  return result.valueBlock.value;
}

function parse(value: Buffer, label: string): ReturnType<typeof fromBER> {
  try {
    return fromBER(value, PARSE_LIMITS);
  } catch (cause) {
    throw malformedError(label, 'the value is not BER', cause);
  }
}

export function readInteger(element: AsnType | undefined, label: string, min: number, max: number): number {
  if (!(element instanceof Integer)) throw malformedError(label, 'an INTEGER is missing');
  const byteCount = element.valueBlock.valueHexView.length;
  if (byteCount < 1 || byteCount > 4)
    throw malformedError(label, `an integer of ${byteCount} bytes; 1 to 4 are accepted`);
  const value = Number(element.toBigInt());
  if (value < min || value > max)
    throw malformedError(label, `${value} is out of range; ${min} to ${max} are accepted`);
  return value;
}

export function readOctets(element: AsnType | undefined, label: string): Buffer {
  if (!(element instanceof OctetString) || element.idBlock.isConstructed) {
    throw malformedError(label, 'an OCTET STRING is missing');
  }
  return copyBytes(element.valueBlock.valueHexView);
}

/** Returns the content of `[tagNumber] IMPLICIT OCTET STRING`; undefined if `element` has another tag or is missing. */
export function readTagged(element: AsnType | undefined, tagNumber: number): Buffer | undefined {
  if (!(element instanceof Primitive) || element.idBlock.tagClass !== CONTEXT_CLASS) return undefined;
  if (element.idBlock.tagNumber !== tagNumber) return undefined;
  return copyBytes(element.valueBlock.valueHexView);
}

/** Throws if there are more than `readCount` components. */
export function expectEnd(elements: readonly AsnType[], readCount: number, label: string): void {
  if (readCount < elements.length) throw malformedError(label, `${elements.length - readCount} components too many`);
}

/** Returns a SEQUENCE with the elements that `content` writes. */
export function writeSequence(content: (writer: Writer) => void): Buffer {
  return writeBytes((writer) => {
    const element = writer.begin(SEQUENCE);
    content(writer);
    writer.end(element);
  });
}

/** Kept for the next short encoding: a writer takes a slab for its first byte. */
let idleWriter: Writer | undefined;

/** Returns a copy of what `write` writes. */
export function writeBytes(write: (writer: Writer) => void): Buffer {
  // An encoding within another one gets a writer of its own.
  const writer = idleWriter ?? new Writer();
  idleWriter = undefined;
  write(writer);
  const bytes = Buffer.from(writer.take());
  idleWriter = writer;
  return bytes;
}

/** Returns a copy, because values of controls outlive the message. */
function copyBytes(view: Uint8Array): Buffer {
  return Buffer.from(view);
}
