/** Values of extended operations as clients encode and decode them. */

import { expectEnd, readSequence, readTagged, writeSequence } from '../../src/protocol/asn1.js';
import { encodeOptional } from '../../src/protocol/encode.js';
import type { ApplicationPasswordsRequest } from '../../src/protocol/extended/application-passwords.js';
import type { PasswordModify } from '../../src/protocol/extended/password-modify.js';
import { contextTag, ENUMERATED, INTEGER } from '../../src/protocol/tags.js';

const MAX_VALUE = 64 * 1024;
const ACTIONS = ['add', 'list', 'remove'] as const;
const what = 'the value';

export function encodeCancel(target: number): Buffer {
  return writeSequence((writer) => writer.integer(INTEGER, target));
}

export function encodePasswordModify({ userIdentity, oldPassword, newPassword }: PasswordModify): Buffer {
  return writeSequence((writer) => {
    encodeOptional(writer, contextTag(0), userIdentity);
    encodeOptional(writer, contextTag(1), oldPassword);
    encodeOptional(writer, contextTag(2), newPassword);
  });
}

/** The password that the server generated, or undefined. */
export function decodeGeneratedPassword(value: Buffer | undefined): Buffer | undefined {
  if (value === undefined) return undefined;
  const elements = readSequence(value, what, MAX_VALUE);
  const password = readTagged(elements[0], 0);
  expectEnd(elements, password === undefined ? 0 : 1, what);
  return password;
}

export function encodeApplicationPasswords(request: ApplicationPasswordsRequest): Buffer {
  return writeSequence((writer) => {
    writer.integer(ENUMERATED, ACTIONS.indexOf(request.action));
    encodeOptional(writer, contextTag(0), request.entry);
    if (request.action === 'list') return;
    encodeOptional(writer, contextTag(1), request.name);
    if (request.action === 'remove') return;
    encodeOptional(writer, contextTag(2), request.networks);
    encodeOptional(writer, contextTag(3), request.usedBy);
    encodeOptional(writer, contextTag(4), request.expires);
  });
}

export function decodeAddedPassword(value: Buffer | undefined): string {
  const elements = readSequence(value, what, MAX_VALUE);
  const password = readTagged(elements[0], 0);
  expectEnd(elements, 1, what);
  if (!password) throw new Error('the password is missing');
  return password.toString();
}
