import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import { refuseSecretNames } from '../model/secrets.js';

/** Parses suffixes and administrator's DN of a new directory. Throws `LdapError` if they are not usable. */
export function parseNames(
  { suffixes, adminDn }: { readonly suffixes: readonly string[]; readonly adminDn: string },
  schema: Schema,
): { suffixes: Dn[]; admin: Dn } {
  const admin = schema.parseDn(adminDn);
  if (admin.rdns.length === 0) throw new LdapError('invalidDNSyntax', "the administrator's DN is empty");
  return { suffixes: parseSuffixes(suffixes, schema), admin };
}

function parseSuffixes(texts: readonly string[], schema: Schema): Dn[] {
  if (texts.length === 0) throw new LdapError('unwillingToPerform', 'a directory needs at least one suffix');
  const suffixes: Dn[] = [];
  for (const text of texts) {
    const dn = schema.parseDn(text);
    checkSuffix(dn, suffixes);
    dn.rdns.forEach(refuseSecretNames);
    suffixes.push(dn);
  }
  return suffixes;
}

/** Throws if `dn` is empty, or equal to, above or below a suffix: entries below a suffix belong to it. */
export function checkSuffix(dn: Dn, suffixes: readonly Dn[]): void {
  if (dn.rdns.length === 0) throw new LdapError('invalidDNSyntax', 'the empty DN cannot be a suffix');
  for (const suffix of suffixes) {
    if (suffix.norm.equals(dn.norm)) throw new LdapError('entryAlreadyExists', `'${dn.text}' is a suffix already`);
    const [inner, outer] = dn.rdns.length > suffix.rdns.length ? [dn, suffix] : [suffix, dn];
    const offset = inner.rdns.length - outer.rdns.length;
    if (outer.rdns.every((rdn, i) => rdn.norm.equals(inner.rdns[offset + i]!.norm))) {
      throw new LdapError(
        'unwillingToPerform',
        `'${inner.text}' lies below '${outer.text}'; both cannot be suffixes: keep one, and make the other an entry`,
      );
    }
  }
}
