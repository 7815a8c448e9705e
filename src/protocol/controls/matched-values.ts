import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import { filterTags, SEQUENCE } from '../tags.js';
import { decodeAssertion } from './assertion.js';

/** Decodes the value of the matched values control (RFC 3876 §2): simple items, of which one has to match. */
export function decodeMatchedValues(value: Buffer | undefined): Filter {
  const filter =
    value?.[0] === SEQUENCE ? decodeAssertion(Buffer.from([filterTags.or, ...value.subarray(1)])) : undefined;
  if (filter?.type === 'or' && filter.filters.every(({ type }) => !['and', 'or', 'not'].includes(type))) return filter;
  throw new LdapError('protocolError', 'the matched values control has no SEQUENCE of simple filter items');
}
