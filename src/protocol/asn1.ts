import { type AsnType, fromBER, Integer, OctetString, Primitive, Sequence } from 'asn1js';
import { LdapError } from '../ldap/ldap-error.js';
import { SEQUENCE } from './tags.js';
import { Writer } from './writer.js';

/** Values of controls and extended operations, where speed does not matter. Errors are LdapError `protocolError`. */

/** Limits for parsing untrusted values with `fromBER`. The content of octet strings is not parsed. */
const bounds = { maxDepth: 8, maxNodes: 64, parseEmbedded: false, copyInput: false };

const CONTEXT_CLASS = 3;

function malformed(what: string, why: string, cause?: unknown): LdapError {
  return new LdapError('protocolError', `${what}: ${why}`, { cause });
}

/** The components of the SEQUENCE that fills `value`. Refuses values of more than `maxBytes`. */
export function readSequence(value: Buffer | undefined, what: string, maxBytes: number): readonly AsnType[] {
  if (value === undefined) throw malformed(what, 'the value is missing');
  if (value.length > maxBytes) throw malformed(what, `a value of ${value.length} bytes; ${maxBytes} are accepted`);
  const { offset, result } = parse(value, what);
  if (offset === -1) throw malformed(what, 'the value is not BER');
  if (offset !== value.length) throw malformed(what, `${value.length - offset} bytes follow the value`);
  if (!(result instanceof Sequence)) throw malformed(what, 'the value is not a SEQUENCE');
  if (result.lenBlock.isIndefiniteForm) throw malformed(what, 'the value has an indefinite length');
  return result.valueBlock.value;
}

function parse(value: Buffer, what: string): ReturnType<typeof fromBER> {
  try {
    return fromBER(value, bounds);
  } catch (cause) {
    throw malformed(what, 'the value is not BER', cause);
  }
}

export function readInteger(element: AsnType | undefined, what: string, min: number, max: number): number {
  if (!(element instanceof Integer)) throw malformed(what, 'an INTEGER is missing');
  const bytes = element.valueBlock.valueHexView.length;
  if (bytes < 1 || bytes > 4) throw malformed(what, `an integer of ${bytes} bytes; 1 to 4 are accepted`);
  const value = Number(element.toBigInt());
  if (value < min || value > max) throw malformed(what, `${value} is out of range; ${min} to ${max} are accepted`);
  return value;
}

export function readOctets(element: AsnType | undefined, what: string): Buffer {
  if (!(element instanceof OctetString) || element.idBlock.isConstructed) {
    throw malformed(what, 'an OCTET STRING is missing');
  }
  return bytesOf(element.valueBlock.valueHexView);
}

/** The content of `[tagNumber] IMPLICIT OCTET STRING`, or undefined when `element` is something else. */
export function readTagged(element: AsnType | undefined, tagNumber: number): Buffer | undefined {
  if (!(element instanceof Primitive) || element.idBlock.tagClass !== CONTEXT_CLASS) return undefined;
  if (element.idBlock.tagNumber !== tagNumber) return undefined;
  return bytesOf(element.valueBlock.valueHexView);
}

/** Throws if there are more than `taken` components. */
export function expectEnd(elements: readonly AsnType[], taken: number, what: string): void {
  if (taken < elements.length) throw malformed(what, `${elements.length - taken} components too many`);
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
function bytesOf(view: Uint8Array): Buffer {
  return Buffer.from(view);
}
