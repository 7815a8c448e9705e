import { LdapError } from '../../ldap/ldap-error.js';
import type { AttributeType, Rdn } from '../../schema/schema-types.js';

/** Returns an error if the RDN contains a secret: names are public and stored in clear text. */
export function secretNameError(rdn: Rdn): LdapError | undefined {
  const secret = secretAttributeOf(rdn);
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

export function secretAttributeOf(rdn: Rdn): string | undefined {
  return rdn.avas.find(({ type }) => type.secret)?.type.name;
}

/** The most passwords of an entry. A failed bind may have to verify each of them. */
export const MAX_PASSWORDS = 8;
const USER_PASSWORD = '2.5.4.35';

export function tooManyPasswordsError(type: AttributeType, valueCount: number): LdapError | undefined {
  if (valueCount <= MAX_PASSWORDS || !type.secret || !isPassword(type)) return undefined;
  const message = `'${type.name}' would have ${valueCount} values; an entry has ${MAX_PASSWORDS} passwords at most`;
  return new LdapError('constraintViolation', message);
}

/** Whether the type is userPassword or a subtype. Clear-text values of these types are stored as hashes. */
export function isPassword(type: AttributeType): boolean {
  for (let ancestor: AttributeType | undefined = type; ancestor; ancestor = ancestor.superior)
    if (ancestor.oid === USER_PASSWORD) return true;
  return false;
}
