import { isUtf8 } from 'node:buffer';
import { LdapError } from '../../ldap/ldap-error.js';
import { expectEnd, readSequence, readTagged, writeSequence } from '../asn1.js';
import { contextTag } from '../tags.js';

/** requestValue of the password modify operation (RFC 3062 §2). */
export interface PasswordModify {
  /** The account whose password changes, usually a DN. Default: the bound user. */
  readonly userIdentity: string | undefined;
  readonly oldPassword: Buffer | undefined;
  /** The new password. Default: the server generates a password. */
  readonly newPassword: Buffer | undefined;
}

const MAX_VALUE = 64 * 1024;
const OPERATION_NAME = 'password modify';

/** Decodes a requestValue. Without one the server generates a password for the bound user. Throws `protocolError`. */
export function decodePasswordModify(value: Buffer | undefined): PasswordModify {
  if (value === undefined) return { userIdentity: undefined, oldPassword: undefined, newPassword: undefined };
  const elements = readSequence(value, OPERATION_NAME, MAX_VALUE);
  const fields: (Buffer | undefined)[] = [];
  let readCount = 0;
  for (let tag = 0; tag < 3; tag++) {
    const field = readTagged(elements[readCount], tag);
    if (field !== undefined) readCount++;
    fields.push(field);
  }
  expectEnd(elements, readCount, OPERATION_NAME);
  const [identity, oldPassword, newPassword] = fields;
  if (identity !== undefined && !isUtf8(identity)) {
    throw new LdapError('protocolError', `${OPERATION_NAME}: userIdentity is not valid UTF-8`);
  }
  return { userIdentity: identity?.toString('utf8'), oldPassword, newPassword };
}

/** Encodes the responseValue: the password that the server generated. */
export function encodeGeneratedPassword(password: Buffer): Buffer {
  return writeSequence((writer) => writer.octetString(contextTag(0), password));
}
