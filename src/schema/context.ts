import type { Dn } from './schema-types.js';

/** What syntaxes and matching rules must ask the schema that they belong to. */
export interface Context {
  /** Throws LdapError invalidDNSyntax. */
  parseDn(text: string): Dn;
  /** `norm` of a DN's text, or undefined when it is none. */
  dnNorm(text: string): Buffer | undefined;
  /** Numeric OID of a name or of itself, as the bytes of its text; undefined for an unknown name. */
  resolveOid(text: string): Buffer | undefined;
  /**
   * `norm` of a DN whose RDNs, leftmost first, are given as OID and value; types not in the schema count as caseIgnore.
   */
  composeNorm(rdns: readonly (readonly { oid: string; value: Buffer }[])[]): Buffer | undefined;
  /** `composeNorm` of a DN's text, or undefined when it is none. */
  looseNorm(text: string): Buffer | undefined;
}
