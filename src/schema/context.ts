import type { Dn } from './schema-types.js';

/** The parts of a schema that syntaxes and matching rules depend on. */
export interface Context {
  /** Throws LdapError invalidDNSyntax. */
  parseDn(text: string): Dn;
  /** Returns `norm` of a DN in text form; undefined if the text is not a DN. */
  dnNorm(text: string): Buffer | undefined;
  /** Returns the numeric OID of a name or OID as ASCII bytes; undefined for an unknown name. */
  resolveOid(text: string): Buffer | undefined;
  /**
   * Returns `norm` of a DN, given by the OIDs and values of its RDNs, leftmost first. Values of types that are not in
   * the schema are normalized by caseIgnoreMatch.
   */
  composeNorm(rdns: readonly (readonly { oid: string; value: Buffer }[])[]): Buffer | undefined;
  /** Like `dnNorm`, but accepts types that are not in the schema. Their values are normalized by caseIgnoreMatch. */
  looseNorm(text: string): Buffer | undefined;
}
