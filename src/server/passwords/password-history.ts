import { generalizedTime } from '../../partition/model/csn.js';
import { storedForm } from '../../password/index.js';

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

/** Returns a value of pwdHistory with the stored password in its `storedForm`. */
export function historyInStoredForm(value: Buffer): Buffer {
  const [stored] = rememberedPasswords([value]);
  const cut = stored && storedForm(stored);
  if (!cut || cut.length === stored.length) return value;
  const [time, syntax] = value.toString('latin1').split('#', 2);
  return Buffer.concat([Buffer.from(`${time}#${syntax}#${cut.length}#`, 'latin1'), cut]);
}
