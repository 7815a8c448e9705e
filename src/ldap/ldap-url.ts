import type { Scope } from './ldap-types.js';
import { decodePercent } from './text.js';

/** The components of an LDAP URL (RFC 4516), percent-decoded. */
export interface LdapUrl {
  /** Host and optional port; '' if the URL names none. */
  readonly host: string;
  readonly dn: string;
  readonly attributes: readonly string[];
  readonly scope: Exclude<Scope, 'subordinate'>;
  readonly filter: string;
  /** Extensions marked as critical by `!`. */
  readonly criticalExtensions: readonly string[];
}

const URL = /^ldaps?:\/\/([^/?]*)(?:\/([^?]*)(?:\?([^?]*)(?:\?([^?]*)(?:\?([^?]*)(?:\?([^?]*))?)?)?)?)?$/i;
const SCOPES: ReadonlySet<string> = new Set(['base', 'one', 'sub']);

/** Parses an LDAP URL. Returns undefined if the text is not an LDAP URL. DN and filter are not parsed. */
export function parseLdapUrl(text: string): LdapUrl | undefined {
  const urlParts = URL.exec(text)
    ?.slice(1)
    .map((component = '') => decodePercent(component));
  if (!urlParts || urlParts.includes(undefined)) return undefined;
  const [host, dn, attributes, scope, filter, extensions] = urlParts as string[];
  const scopeName = scope!.toLowerCase() || 'base';
  if (!SCOPES.has(scopeName)) return undefined;
  return {
    host: host!,
    dn: dn!,
    attributes: splitList(attributes!),
    scope: scopeName as LdapUrl['scope'],
    filter: filter! || '(objectClass=*)',
    criticalExtensions: splitList(extensions!).filter((name) => name.startsWith('!')),
  };
}

/** Returns the number of items in the filter: `(` and `*` are counted, which are escaped in values. */
export function countFilterItems({ filter }: LdapUrl): number {
  return filter.match(/[(*]/g)?.length ?? 1;
}

function splitList(text: string): string[] {
  return text === '' ? [] : text.split(',');
}
