import { LdapError } from '../../ldap/ldap-error.js';

export type ListenAddress =
  | { readonly scheme: 'ldap' | 'ldaps'; readonly url: string; readonly host: string; readonly port: number }
  | { readonly scheme: 'ldapi'; readonly url: string; readonly path: string };

const DEFAULT_PORT = { ldap: 389, ldaps: 636 } as const;

/** Parses `ldap://host:port`, `ldaps://host:port` or `ldapi://%2frun%2frowan.sock`. No host: all interfaces. */
export function parseListenUrl(url: string): ListenAddress {
  const match = /^(ldaps?|ldapi):\/\/([^/?#]*)\/?$/i.exec(url);
  if (!match)
    throw invalidUrlError(url, 'expected ldap://host:port, ldaps://host:port or ldapi://%2fpath%2fto%2fsocket');
  const scheme = match[1]!.toLowerCase() as ListenAddress['scheme'];
  if (scheme === 'ldapi') return { scheme, url, path: socketPath(url, match[2]!) };
  const authority = /^(\[[0-9a-f:.]+\]|[^:[\]]*)(?::(\d{1,5}))?$/i.exec(match[2]!);
  if (!authority) throw invalidUrlError(url, 'expected host:port');
  const port = authority[2] === undefined ? DEFAULT_PORT[scheme] : Number(authority[2]);
  if (port > 65_535) throw invalidUrlError(url, 'a port is at most 65535');
  return { scheme, url, host: authority[1]!.replace(/^\[|\]$/g, '') || '::', port };
}

function socketPath(url: string, encoded: string): string {
  const path = decodePercent(encoded);
  if (!path?.startsWith('/')) throw invalidUrlError(url, 'expected an absolute path with %2f for /');
  return path;
}

function decodePercent(text: string): string | undefined {
  return /%(?![0-9a-f]{2})/i.test(text) ? undefined : decodeURIComponent(text);
}

/** Returns the URL that clients use, with the port that the system chose. */
export function clientUrl(address: ListenAddress, port: number): string {
  if (address.scheme === 'ldapi') return address.url;
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${address.scheme}://${host}:${port}`;
}

function invalidUrlError(url: string, reason: string): LdapError {
  return new LdapError('unwillingToPerform', `cannot listen on '${url}': ${reason}`);
}
