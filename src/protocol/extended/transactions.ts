import { Boolean as BooleanElement } from 'asn1js';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readOctets, readSequence, readTagged, writeSequence } from '../asn1.js';
import { encodeControls } from '../encode.js';
import type { Control } from '../ldap-messages.js';
import { INTEGER, SEQUENCE } from '../tags.js';

/** In bytes, of a value with an identifier. */
const MAX_VALUE = 64;
const END_NAME = 'end transaction';

/** Returns the identifier in the transaction specification control (RFC 5805 §2.2). Throws `protocolError`. */
export function decodeTransactionSpecification(value: Buffer | undefined, critical: boolean): string {
  if (critical && value !== undefined && value.length <= MAX_VALUE) return value.toString('latin1');
  throw new LdapError('protocolError', 'transaction control: it is critical, and its value identifies a transaction');
}

/** Decodes the requestValue of the end (RFC 5805 §2.3). Throws `protocolError`. */
export function decodeTransactionEnd(value: Buffer | undefined): { commit: boolean; identifier: string } {
  const elements = readSequence(value, END_NAME, MAX_VALUE);
  const [first] = elements;
  const isGiven = first instanceof BooleanElement;
  const element = elements[isGiven ? 1 : 0];
  // The UnboundID SDK sends the identifier with tag 11, that of the responseValue in which it was told.
  const identifier = (readTagged(element, 11) ?? readOctets(element, END_NAME)).toString('latin1');
  expectEnd(elements, isGiven ? 2 : 1, END_NAME);
  return { commit: !isGiven || first.getValue(), identifier };
}

/**
 * Encodes the responseValue of the end (RFC 5805 §2.3); undefined if there is nothing to tell. `failedId`: messageID of
 * the operation that has failed. `updates`: messageIDs of operations, with the controls of their responses.
 */
export function encodeTransactionEnd(
  failedId: number | undefined,
  updates: readonly { readonly id: number; readonly controls?: readonly Control[] | undefined }[],
): Buffer | undefined {
  const controlled = updates.filter(({ controls = [] }) => controls.length > 0);
  if (failedId === undefined && controlled.length === 0) return undefined;
  return writeSequence((writer) => {
    if (failedId !== undefined) writer.integer(INTEGER, failedId);
    if (controlled.length === 0) return;
    const list = writer.begin(SEQUENCE);
    for (const { id, controls = [] } of controlled) {
      const update = writer.begin(SEQUENCE);
      writer.integer(INTEGER, id);
      encodeControls(writer, controls, SEQUENCE);
      writer.end(update);
    }
    writer.end(list);
  });
}
