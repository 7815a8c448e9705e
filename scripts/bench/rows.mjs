/** What is measured. Every row drives both servers with the same options of scripts/load/ldapload.c. */

export const BASE = 'dc=example,dc=com';
export const ADMIN = 'cn=admin,dc=example,dc=com';

/** How many of the numbers below `entries` start with the digits of `prefix`. */
export function numbersStarting(prefix, entries) {
  let count = 0;
  for (let low = prefix, width = 1; low < entries; low *= 10, width *= 10) {
    count += Math.min(low + width, entries) - low;
    if (low === 0) break;
  }
  return count;
}

/**
 * Two-digit prefixes, all with the same number of results where `entries` is a power of ten; else any number is taken.
 */
function prefixOptions(entries) {
  const same = numbersStarting(10, entries) === numbersStarting(99, entries);
  return ['-l', '10', '-n', '100', '-v', 'Common user.%u', '-e', same ? String(numbersStarting(10, entries)) : '-1'];
}

/** People of the row `argon2id`. */
const REPEATED = 100;

/**
 * `mode`: of ldapload. `depths`: requests in flight on each connection. `write`: bound as the administrator.
 * `tls`: sessions under TLS, with full handshakes or resumed ones. `options(entries)`: more options. `argon2id`: so
 * many people get their password anew where the server hashes it so. `extra`: measured only when named with `--only` or
 * under `--all`.
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

/** Connections that the load generator opens. */
export const CONNECTIONS = 8;

/** The port of a server that a row speaks to. */
export function rowPort(row, server) {
  return row.tls ? server.tlsPort : server.port;
}

/** Options of ldapload for one turn of a row; `first`: where the numbers of people that it adds begin. */
export function rowArgs(row, { entries, depth, seconds, first, password }) {
  const more = row.options?.(entries) ?? [];
  const args = ['-m', row.mode, '-c', CONNECTIONS, '-d', depth, '-t', seconds, ...more];
  if (!more.includes('-n')) args.push('-n', entries);
  if (row.write) args.push('-D', ADMIN, '-W', password);
  if (row.tls) args.push('-x', row.tls);
  if (row.grows) args.push('-s', first);
  return args;
}

/** Rows that are no load: bulk load, start, memory. */
export const otherRows = ['load', 'start', 'memory'];

export function rowNames() {
  return [...loadRows.map((row) => row.name), ...otherRows];
}
