/** The measured rows. Every row drives both servers with the same options of scripts/load/ldapload.c. */

export const BASE = 'dc=example,dc=com';
export const ADMIN = 'cn=admin,dc=example,dc=com';

/** Counts the numbers below `entries` whose digits start with `prefix`. */
export function numbersStarting(prefix, entries) {
  let count = 0;
  for (let low = prefix, width = 1; low < entries; low *= 10, width *= 10) {
    count += Math.min(low + width, entries) - low;
    if (low === 0) break;
  }
  return count;
}

/** Two-digit prefixes with equal numbers of results if `entries` is a power of ten; otherwise any number. */
function prefixOptions(entries) {
  const same = numbersStarting(10, entries) === numbersStarting(99, entries);
  return ['-l', '10', '-n', '100', '-v', 'Common user.%u', '-e', same ? String(numbersStarting(10, entries)) : '-1'];
}

/** Number of people in the row `argon2id`. */
const REPEATED = 100;

/**
 * The rows driven by ldapload. `mode`: its mode. `depths`: requests in flight on each connection. `write`: binds as the
 * administrator. `tls`: TLS with full or resumed handshakes. `options(entries)`: further options. `argon2id`: number of
 * people whose passwords are set again, hashed by the server. `extra`: measured only with `--only` or `--all`.
 */
export const loadRows = [
  { name: 'search', title: '(uid=x), all attributes', mode: 'search', depths: [1, 16] },
  { name: 'base', title: 'base object', mode: 'base', depths: [1, 16] },
  { name: 'compare', title: 'compare uid', mode: 'compare', depths: [1, 16] },
  { name: 'bind', title: 'bind, {SSHA}', mode: 'bind', depths: [1, 16] },
  {
    name: 'argon2id',
    title: `bind, ${REPEATED} users again and again, argon2id (slapd: {SSHA})`,
    mode: 'bind',
    depths: [1, 16],
    options: () => ['-n', String(REPEATED)],
    argon2id: REPEATED,
    extra: true,
  },
  { name: 'and', title: '(&(objectClass=person)(uid=x))', mode: 'and', depths: [1, 16], extra: true },
  { name: 'substring', title: '(cn=prefix*)', mode: 'sub', depths: [1, 16], options: prefixOptions, perEntry: true },
  { name: 'middle', title: '(cn=*middle*)', mode: 'middle', depths: [1, 16], options: () => ['-e', '-1'], extra: true },
  {
    name: 'unindexed',
    title: 'unindexed filter, 10 results',
    mode: 'unindexed',
    depths: [1, 16],
    options: () => ['-e', '10'],
  },
  { name: 'modify', title: 'modify, durable', mode: 'modify', depths: [1, 16], write: true },
  { name: 'add', title: 'add, durable', mode: 'add', depths: [1, 16], write: true, grows: true },
  {
    name: 'mixed',
    title: '80 % search, 10 % bind, 8 % modify, 2 % add/delete',
    mode: 'mixed',
    depths: [1, 16],
    write: true,
    grows: true,
    extra: true,
  },
  { name: 'sessions', title: 'connect, bind, search, unbind, close', mode: 'sessions', depths: [1] },
  { name: 'sessions-tls', title: 'the same, TLS, full handshakes', mode: 'sessions', depths: [1], tls: 'new' },
  { name: 'sessions-resumed', title: 'the same, TLS, resumed', mode: 'sessions', depths: [1], tls: 'resumed' },
];

/** Connections of the load generator. */
export const CONNECTIONS = 8;

/** Returns the server port that a row uses. */
export function rowPort(row, server) {
  return row.tls ? server.tlsPort : server.port;
}

/** Returns the options of ldapload for one turn of a row. `first`: first number of the people that the turn adds. */
export function rowArgs(row, { entries, depth, seconds, first, password }) {
  const more = row.options?.(entries) ?? [];
  const args = ['-m', row.mode, '-c', CONNECTIONS, '-d', depth, '-t', seconds, ...more];
  if (!more.includes('-n')) args.push('-n', entries);
  if (row.write) args.push('-D', ADMIN, '-W', password);
  if (row.tls) args.push('-x', row.tls);
  if (row.grows) args.push('-s', first);
  return args;
}

/** Rows without a load generator: bulk load, start, memory. */
export const otherRows = ['load', 'start', 'memory'];

export function rowNames() {
  return [...loadRows.map((row) => row.name), ...otherRows];
}
