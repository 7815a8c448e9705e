import { type AsnType, fromBER, Integer, OctetString, Primitive, Sequence } from 'asn1js';
import { LdapError } from '../ldap/ldap-error.js';
import { SEQUENCE } from './tags.js';
import { Writer } from './writer.js';

/** Values of controls and extended operations, where speed does not matter. Errors are LdapError `protocolError`. */

/** Limits for parsing untrusted values with `fromBER`. The content of octet strings is not parsed. */
const PARSE_LIMITS = { maxDepth: 8, maxNodes: 64, parseEmbedded: false, copyInput: false };

const CONTEXT_CLASS = 3;

function malformedError(what: string, why: string, cause?: unknown): LdapError {
  return new LdapError('protocolError', `${what}: ${why}`, { cause });
}

/** The components of the SEQUENCE that fills `value`. Refuses values of more than `maxBytes`. */
export function readSequence(value: Buffer | undefined, what: string, maxBytes: number): readonly AsnType[] {
  if (value === undefined) throw malformedError(what, 'the value is missing');
  if (value.length > maxBytes) throw malformedError(what, `a value of ${value.length} bytes; ${maxBytes} are accepted`);
  const { offset, result } = parse(value, what);
  if (offset === -1) throw malformedError(what, 'the value is not BER');
  if (offset !== value.length) throw malformedError(what, `${value.length - offset} bytes follow the value`);
  if (!(result instanceof Sequence)) throw malformedError(what, 'the value is not a SEQUENCE');
  if (result.lenBlock.isIndefiniteForm) throw malformedError(what, 'the value has an indefinite length');
  return result.valueBlock.value;
}

function parse(value: Buffer, what: string): ReturnType<typeof fromBER> {
  try {
    return fromBER(value, PARSE_LIMITS);
  } catch (cause) {
    throw malformedError(what, 'the value is not BER', cause);
  }
}

export function readInteger(element: AsnType | undefined, what: string, min: number, max: number): number {
  if (!(element instanceof Integer)) throw malformedError(what, 'an INTEGER is missing');
  const byteCount = element.valueBlock.valueHexView.length;
  if (byteCount < 1 || byteCount > 4)
    throw malformedError(what, `an integer of ${byteCount} bytes; 1 to 4 are accepted`);
  const value = Number(element.toBigInt());
  if (value < min || value > max) throw malformedError(what, `${value} is out of range; ${min} to ${max} are accepted`);
  return value;
}

export function readOctets(element: AsnType | undefined, what: string): Buffer {
  if (!(element instanceof OctetString) || element.idBlock.isConstructed) {
    throw malformedError(what, 'an OCTET STRING is missing');
  }
  return copyBytes(element.valueBlock.valueHexView);
}

/** The content of `[tagNumber] IMPLICIT OCTET STRING`, or undefined when `element` is something else. */
export function readTagged(element: AsnType | undefined, tagNumber: number): Buffer | undefined {
  if (!(element instanceof Primitive) || element.idBlock.tagClass !== CONTEXT_CLASS) return undefined;
  if (element.idBlock.tagNumber !== tagNumber) return undefined;
  return copyBytes(element.valueBlock.valueHexView);
}

/** Throws if there are more than `taken` components. */
export function expectEnd(elements: readonly AsnType[], readCount: number, what: string): void {
  if (readCount < elements.length) throw malformedError(what, `${elements.length - readCount} components too many`);
}

/** A SEQUENCE with the elements that `content` writes. */
export function writeSequence(content: (writer: Writer) => void): Buffer {
  const writer = new Writer();
  const outer = writer.begin(SEQUENCE);
  content(writer);
  writer.end(outer);
  return Buffer.from(writer.take());
}

/** Returns a copy, because values of controls outlive the message. */
function copyBytes(view: Uint8Array): Buffer {
  return Buffer.from(view);
}
