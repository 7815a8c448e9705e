import type { Schema } from '../../schema/schema.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** The subschema subentry (RFC 4512 §4.2): the whole schema in RFC 4512 §4.1 text. */
export function subschemaAttributes(schema: Schema, loadedAt: Date): VirtualAttributes {
  const time = generalizedTime(loadedAt);
  return [
    ['objectClass', ['top', 'subentry', 'subschema', 'extensibleObject']],
    ['cn', ['Subschema']],
    ['subtreeSpecification', ['{}']],
    ...schema.subschema().map(({ type, values }) => [type, values] as const),
    ['createTimestamp', [time]],
    ['modifyTimestamp', [time]],
    ['entryDN', [SUBSCHEMA_DN]],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', ['subentry']],
    ['hasSubordinates', ['FALSE']],
    ['numSubordinates', ['0']],
  ];
}

/** Generalized Time (RFC 4517 §3.3.13) in whole seconds. */
export function generalizedTime(time: Date): string {
  return time.toISOString().replace(/[-:T]|\.\d+/g, '');
}
