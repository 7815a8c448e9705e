import { decodePercent } from '../../ldap/text.js';
import { attributeValues } from '../model/entry-cells.js';
import type { TreeContext } from './tree-context.js';

/** Returns whether a value of objectClass is alias or referral, as name or OID (RFC 4512 §2.6, RFC 3296 §2). */
export function specialValue(value: Buffer): 'alias' | 'referral' | undefined {
  const n = value.length;
  if (n !== 5 && n !== 7 && n !== 8 && n !== 23) return undefined;
  const text = value.toString('latin1').toLowerCase();
  if (text === 'alias' || text === '2.5.6.1') return 'alias';
  return text === 'referral' || text === '2.16.840.1.113730.3.2.6' ? 'referral' : undefined;
}

/** Returns `alias` or `referral` for an entry of that object class; undefined for any other entry. */
export function specialClass(context: TreeContext, row: Buffer): 'alias' | 'referral' | undefined {
  for (const value of attributeValues(context, row, 'objectClass')) {
    const special = specialValue(value);
    if (special) return special;
  }
  return undefined;
}

/** Returns the URLs of a referral object; an empty list for any other entry. */
export function referralUrls(context: TreeContext, row: Buffer): string[] {
  if (specialClass(context, row) !== 'referral') return [];
  // A label may follow the URI (RFC 3296 §2.1, RFC 2079).
  return attributeValues(context, row, 'ref').map((v) => v.toString().split(' ')[0]!);
}

const LDAP_URL = /^(ldaps?:\/\/[^/?]*)(?:\/([^?]*))?/i;

/**
 * Returns the referral URL for a requested name (RFC 3296 §5.2): puts `rdns`, the requested RDNs below the referral
 * object, in front of the DN in `url`. If `url` has no DN, uses `objectDn`, the DN of the referral object.
 */
export function referralTo(url: string, rdns: readonly string[], objectDn: string, scope?: 'base' | 'sub'): string {
  const match = LDAP_URL.exec(url);
  if (!match) return url;
  const target = match[2] ? (decodePercent(match[2]) ?? match[2]) : objectDn;
  const dn = [...rdns, target].filter((part) => part !== '').join(',');
  return `${match[1]}/${encodeURI(dn).replace(/[?#]/g, encodeURIComponent)}${scope ? `??${scope}` : ''}`;
}

/** Adds a scope to a URL from `referralTo` that has none. */
export function withScope(url: string, scope: 'base' | 'one' | 'sub'): string {
  return LDAP_URL.test(url) ? `${url}??${scope}` : url;
}
