import { isUtf8 } from 'node:buffer';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readInteger, readSequence, readTagged, writeSequence } from '../asn1.js';
import { encodeOptional } from '../encode.js';
import { contextTag, SEQUENCE } from '../tags.js';

const ACTIONS = ['add', 'list', 'remove'] as const;

/** Properties of an application password. Times are in generalizedTime format. */
export interface ApplicationPasswordFields {
  readonly name: string;
  /** Networks that the password may be used from, separated by spaces. */
  readonly networks?: string | undefined;
  /** DN of the user who has to be bound on the connection before the password can be used. */
  readonly usedBy?: string | undefined;
  readonly expires?: string | undefined;
}

/** requestValue of the operation on application passwords (docs/server.md). */
export type ApplicationPasswordsRequest = {
  /** DN of the account. Default: the bound user. */
  readonly entry?: string | undefined;
} & (
  | ({ readonly action: 'add' } & ApplicationPasswordFields)
  | { readonly action: 'list' }
  | { readonly action: 'remove'; readonly name: string }
);

/** An application password in the response to `list`. */
export interface ListedApplicationPassword extends ApplicationPasswordFields {
  readonly created: string;
  readonly lastUse?: string | undefined;
}

const MAX_VALUE = 64 * 1024;
const OPERATION_NAME = 'application passwords';

/** Decodes a requestValue. Throws LdapError `protocolError`. */
export function decodeApplicationPasswords(value: Buffer | undefined): ApplicationPasswordsRequest {
  const elements = readSequence(value, OPERATION_NAME, MAX_VALUE);
  const action = ACTIONS[readInteger(elements[0], OPERATION_NAME, 0, ACTIONS.length - 1)]!;
  const fields: (string | undefined)[] = [];
  let readCount = 1;
  for (let tag = 0; tag < 5; tag++) {
    const field = readTagged(elements[readCount], tag);
    if (field !== undefined) readCount++;
    fields.push(field && decodeText(field));
  }
  expectEnd(elements, readCount, OPERATION_NAME);
  const [entry, name, networks, usedBy, expires] = fields;
  if (action !== 'add' && (networks ?? usedBy ?? expires) !== undefined)
    throw new LdapError('protocolError', `${OPERATION_NAME}: ${action} takes neither networks nor usedBy nor expires`);
  if (action === 'list') {
    if (name !== undefined) throw new LdapError('protocolError', `${OPERATION_NAME}: list takes no name`);
    return { action, entry };
  }
  if (name === undefined) throw new LdapError('protocolError', `${OPERATION_NAME}: ${action} needs a name`);
  return action === 'add' ? { action, entry, name, networks, usedBy, expires } : { action, entry, name };
}

function decodeText(field: Buffer): string {
  if (!isUtf8(field)) throw new LdapError('protocolError', `${OPERATION_NAME}: a field is not valid UTF-8`);
  return field.toString();
}

/** Encodes the responseValue of `add`: the new password, which the server never shows again. */
export function encodeAddedPassword(password: string): Buffer {
  return writeSequence((writer) => writer.text(contextTag(0), password));
}

/** Encodes the responseValue of `list`. */
export function encodeListedPasswords(listed: readonly ListedApplicationPassword[]): Buffer {
  return writeSequence((writer) => {
    for (const { name, networks, usedBy, expires, created, lastUse } of listed) {
      const passwordMark = writer.begin(SEQUENCE);
      const fields = [name, networks, usedBy, expires, created, lastUse];
      for (const [i, field] of fields.entries()) encodeOptional(writer, contextTag(i + 1), field);
      writer.end(passwordMark);
    }
  });
}
