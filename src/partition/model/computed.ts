import type { AttributeType } from '../../schema/schema-types.js';

/** OIDs of memberOf and its synonym isMemberOf. */
const MEMBERSHIPS = ['1.2.840.113556.1.2.102', '1.3.6.1.4.1.42.2.27.9.1.792'];

const CONTEXT_CSN = '1.3.6.1.4.1.4203.666.1.25';
/** OIDs of entryDN (RFC 5020), subschemaSubentry (RFC 4512 §4.2), hasSubordinates, numSubordinates and contextCSN. */
const POSITIONS = ['1.3.6.1.1.20', '2.5.18.10', '2.5.18.9', '1.3.6.1.4.1.453.16.2.103', CONTEXT_CSN];
const COMPUTED_OIDS = new Set([...POSITIONS, ...MEMBERSHIPS]);

/** Whether the attribute is not stored but computed when a client reads it. */
export function isComputed(type: AttributeType): boolean {
  return COMPUTED_OIDS.has(type.oid);
}

/** Whether the attribute lists the groups of an entry. */
export function isMembership({ oid }: AttributeType): boolean {
  return MEMBERSHIPS.includes(oid);
}

export const SUBSCHEMA_DN = Buffer.from('cn=Subschema');
