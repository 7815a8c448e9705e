import type { Dn } from './schema-types.js';

/** The parts of a schema that syntaxes and matching rules depend on. */
export interface Context {
  /** Throws LdapError invalidDNSyntax. */
  parseDn(text: string): Dn;
  /** `norm` of a DN in text form; undefined if the text is not a DN. */
  dnNorm(text: string): Buffer | undefined;
  /** Numeric OID of a name or OID, as ASCII bytes; undefined for an unknown name. */
  resolveOid(text: string): Buffer | undefined;
  /**
   * `norm` of a DN, given by the OIDs and values of its RDNs, leftmost first. Types that are not in the schema are
   * compared by caseIgnoreMatch.
   */
  composeNorm(rdns: readonly (readonly { oid: string; value: Buffer }[])[]): Buffer | undefined;
  /** `composeNorm` of a DN in text form; undefined if the text is not a DN. */
  looseNorm(text: string): Buffer | undefined;
}
