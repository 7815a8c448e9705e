import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeType, Rdn } from '../../schema/schema-types.js';

/** A name is read by everybody, and the value in it is stored as it was given. */
export function secretNameError(rdn: Rdn): LdapError | undefined {
  const secret = secretIn(rdn);
  if (secret === undefined) return undefined;
  return new LdapError(
    'namingViolation',
    `attribute '${secret}' holds secrets and cannot name an entry; name it by another attribute`,
  );
}

export function refuseSecretNames(rdn: Rdn): void {
  const error = secretNameError(rdn);
  if (error) throw error;
}

/** The name of the attribute in the RDN that holds secrets. */
export function secretIn(rdn: Rdn): string | undefined {
  return rdn.avas.find(({ type }) => type.secret)?.type.name;
}

/** Passwords of an entry, at most: each may cost a bind that fails. */
export const MAX_PASSWORDS = 8;
const USER_PASSWORD = '2.5.4.35';

export function manyPasswordsError(type: AttributeType, values: number): LdapError | undefined {
  if (values <= MAX_PASSWORDS || !type.secret || !isPassword(type)) return undefined;
  const message = `'${type.name}' would have ${values} values; an entry has ${MAX_PASSWORDS} passwords at most`;
  return new LdapError('constraintViolation', message);
}

/** Whether the type is userPassword or below it: values given in the clear are stored hashed. */
export function isPassword(type: AttributeType): boolean {
  for (let t: AttributeType | undefined = type; t; t = t.superior) if (t.oid === USER_PASSWORD) return true;
  return false;
}
