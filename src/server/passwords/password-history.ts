import { generalizedTime } from '../../partition/model/csn.js';

/**
 * Values of pwdHistory (draft-behera-ldap-password-policy-10 §5.3.7) consist of the time, the OID of the syntax, the
 * length and the stored password, separated by `#`.
 */
const OCTET_STRING_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.40';
const NUMBER_SIGN = 0x23;

export function historyValue(stored: Buffer, now: number): Buffer {
  return Buffer.concat([Buffer.from(`${generalizedTime(now)}#${OCTET_STRING_SYNTAX}#${stored.length}#`), stored]);
}

/** Returns the stored passwords in values of pwdHistory. Malformed values are skipped. */
export function rememberedPasswords(history: readonly Buffer[]): Buffer[] {
  return history.flatMap((value) => {
    let separatorOffset = -1;
    for (let field = 0; field < 3; field++) {
      separatorOffset = value.indexOf(NUMBER_SIGN, separatorOffset + 1);
      if (separatorOffset < 0) return [];
    }
    return [value.subarray(separatorOffset + 1)];
  });
}
