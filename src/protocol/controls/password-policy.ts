import { writeSequence } from '../asn1.js';
import { MAX_INT } from '../reader.js';
import { constructedContextTag, contextTag } from '../tags.js';

/** Errors of the control (draft-behera-ldap-password-policy-10 §6.2). OpenLDAP defines `passwordTooLong`. */
export const PasswordPolicyError = {
  passwordExpired: 0,
  accountLocked: 1,
  changeAfterReset: 2,
  passwordModNotAllowed: 3,
  mustSupplyOldPassword: 4,
  insufficientPasswordQuality: 5,
  passwordTooShort: 6,
  passwordTooYoung: 7,
  passwordInHistory: 8,
  passwordTooLong: 9,
} as const;

export type PasswordPolicyErrorName = keyof typeof PasswordPolicyError;

/** Value of the response control: at most one warning and at most one error. */
export interface PasswordPolicyResponse {
  /** Seconds until the password expires. */
  readonly expiresIn?: number | undefined;
  /** Remaining grace logins after expiry. */
  readonly grace?: number | undefined;
  readonly error?: PasswordPolicyErrorName | undefined;
}

export function encodePasswordPolicy({ expiresIn, grace, error }: PasswordPolicyResponse): Buffer {
  return writeSequence((writer) => {
    if (expiresIn !== undefined || grace !== undefined) {
      const warningMark = writer.begin(constructedContextTag(0));
      writer.integer(expiresIn === undefined ? contextTag(1) : contextTag(0), Math.min(expiresIn ?? grace!, MAX_INT));
      writer.end(warningMark);
    }
    if (error !== undefined) writer.integer(contextTag(1), PasswordPolicyError[error]);
  });
}
