import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import Server from 'ldapjs/lib/server.js';
import type { Logger } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';
import { type Config, onSettingsChanged } from '../settings/index.js';
import type { TlsMaterial } from './tls-material.js';

/** Sockets accepted above the configured number of connections, for TLS handshakes and for refusals. */
export const SPARE_CONNECTIONS = 256;

interface ListenOptions {
  readonly socketMode: number;
  readonly log: Logger;
  /** Servers whose number of sockets is limited. */
  readonly servers: NetServer[];
}

/** Errors of an address family that the machine lacks. */
const ABSENT_FAMILY: ReadonlySet<unknown> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT']);

export interface Listener {
  readonly url: string;
  /** Stops accepting. Open connections continue. */
  close(): void;
}

/** Listens on each address with the server of the same index. Listens on none when one of them fails. */
export async function openListeners(
  addresses: readonly ListenAddress[],
  nets: readonly NetServer[],
  config: Config,
  log: Logger,
): Promise<Listener[]> {
  const servers = [...nets];
  const options = { socketMode: Number.parseInt(config.ldapi.mode, 8), log, servers };
  // Counts sockets in unfinished TLS handshakes as well. Further connections stay in the system's backlog.
  const limitConnections = (): void => {
    for (const server of servers) server.maxConnections = config.limits.connections + SPARE_CONNECTIONS;
  };
  limitConnections();
  onSettingsChanged(config, limitConnections);
  const listeners: Listener[] = [];
  try {
    for (const [i, address] of addresses.entries()) listeners.push(await openAddress(address, nets[i]!, options));
  } catch (error) {
    for (const listener of listeners) listener.close();
    throw error;
  }
  return listeners;
}

function openAddress(address: ListenAddress, net: NetServer, options: ListenOptions): Promise<Listener> {
  const isLoopback = address.scheme !== 'ldapi' && address.host.toLowerCase() === 'localhost';
  return isLoopback ? openLoopback(address, net, options) : openListener(address, net, options);
}

/**
 * Listens for `localhost`, on the loopback addresses of IPv4 and IPv6: clients try either. `net` listens on the first,
 * a server of its own on the second, which gives its sockets to `net`. A machine may lack IPv6.
 */
async function openLoopback(
  address: Exclude<ListenAddress, { scheme: 'ldapi' }>,
  net: NetServer,
  options: ListenOptions,
): Promise<Listener> {
  const main = await openListener({ ...address, host: '127.0.0.1' }, net, options);
  const port = Number(new URL(main.url).port);
  const url = clientUrl(address, port);
  const server = createServer({ pauseOnConnect: true }, (socket) => void net.emit('connection', socket));
  server.maxConnections = net.maxConnections;
  try {
    const second = await openListener({ ...address, host: '::1', port }, server, options);
    options.servers.push(server);
    const close = (): void => {
      main.close();
      second.close();
    };
    return { url, close };
  } catch (error) {
    if (ABSENT_FAMILY.has(((error as Error).cause as NodeJS.ErrnoException).code)) return { ...main, url };
    main.close();
    throw error;
  }
}

/** Listens with `net`. Rejects with an error that names the URL. */
async function openListener(address: ListenAddress, net: NetServer, options: ListenOptions): Promise<Listener> {
  try {
    await listen(net, address);
  } catch (error) {
    if (!(await removeStaleSocket(address, error as NodeJS.ErrnoException))) throw listenError(address, error);
    await listen(net, address);
  }
  net.on('error', (error) => warnRarely(options.log, address, error));
  if (address.scheme === 'ldapi') await chmod(address.path, options.socketMode);
  const boundAddress = net.address();
  const url = clientUrl(address, boundAddress !== null && typeof boundAddress === 'object' ? boundAddress.port : 0);
  return { url, close: () => void net.close() };
}

async function listen(net: NetServer, address: ListenAddress): Promise<void> {
  if (address.scheme === 'ldapi') net.listen(address.path);
  else net.listen({ host: address.host, port: address.port, backlog: 1024 });
  await once(net, 'listening');
}

/** Removes the socket file of a server that no longer runs. Returns whether the file was removed. */
async function removeStaleSocket(address: ListenAddress, error: NodeJS.ErrnoException): Promise<boolean> {
  if (address.scheme !== 'ldapi' || error.code !== 'EADDRINUSE') return false;
  if (await isSocketAnswered(address.path)) return false;
  await rm(address.path, { force: true });
  return true;
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the address is in use by another program',
  EACCES: 'permission denied (ports below 1024 need a privilege)',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'the host name is unknown',
};

function listenError(address: ListenAddress, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  // libuv reports EACCES also for ENOENT.
  const folderReason =
    address.scheme === 'ldapi' && code === 'EACCES' ? 'its folder does not exist or may not be written' : undefined;
  const reason = folderReason ?? (code && REASONS[code]) ?? message;
  return new Error(`cannot listen on '${address.url}': ${reason}`, { cause: error });
}

let warnedAt = Number.NEGATIVE_INFINITY;

/** Warns, at most once a second, of a refused connection, for example for lack of a file descriptor (EMFILE). */
function warnRarely(log: Logger, address: ListenAddress, error: NodeJS.ErrnoException): void {
  const now = performance.now();
  if (now - warnedAt < 1000) return;
  warnedAt = now;
  log.warn({ url: address.url, code: error.code }, 'a connection could not be accepted');
}

interface ReceiverOptions {
  readonly tls: TlsMaterial | undefined;
  readonly handshakeSeconds: number;
  readonly log: Logger;
  onConnection(socket: Socket): void;
}

/** Turns the sockets of one URL into connections. */
export interface Receiver {
  /** The server to listen with when the sockets are accepted in this process. */
  readonly net: NetServer;
  /** Takes a socket that another process has accepted. */
  receive(socket: Socket): void;
  /** Sets the certificate for new handshakes. Does nothing without TLS. */
  renewCertificate(tls: TlsMaterial): void;
  /** Destroys the sockets that are still in the TLS handshake. */
  endHandshakes(): void;
}

interface Handshake extends RosterMember {
  readonly socket: Socket;
}

export function createReceiver(address: ListenAddress, options: ReceiverOptions): Receiver {
  const server = createLdapjsServer(address, options);
  const net = server.server;
  // Node leaves the socket of a handshake that failed or timed out to this listener.
  net.on('tlsClientError', (_error, socket: Socket) => socket.destroy());
  // ldapjs re-emits the errors of the `net` server, which has its own error listener.
  server.on('error', () => undefined);
  const handshakes = new Roster<Handshake>();
  const trackHandshake = (socket: Socket): void => {
    const handshake = { socket, rosterIndex: -1 };
    handshakes.add(handshake);
    socket.once('close', () => handshakes.delete(handshake));
  };
  if (net instanceof TlsServer) net.on('connection', trackHandshake);
  return {
    net,
    receive: (socket) => void net.emit('connection', socket),
    renewCertificate: (tls) => {
      if (net instanceof TlsServer) net.setSecureContext({ ...tls, cert: tls.certificate });
    },
    endHandshakes: () => {
      for (const { socket } of handshakes) socket.destroy();
    },
  };
}

/**
 * Creates an ldapjs server, which does the TLS handshake and hands over its sockets unchanged (`connectionRouter`).
 * ldapjs passes options that it does not know to `tls.createServer`.
 */
function createLdapjsServer(address: ListenAddress, options: ReceiverOptions): Server {
  const { tls } = options;
  const commonOptions = { log: options.log, connectionRouter: (socket: Socket) => options.onConnection(socket) };
  if (address.scheme !== 'ldaps') return new Server(commonOptions);
  if (!tls) throw new Error(`cannot listen on '${address.url}': no certificate is configured (tls.cert, tls.key)`);
  const tlsOptions = {
    certificate: tls.certificate,
    key: tls.key,
    minVersion: tls.minVersion,
    handshakeTimeout: options.handshakeSeconds * 1000,
    ...(tls.ca ? { ca: tls.ca } : {}),
  };
  return new Server({ ...commonOptions, ...tlsOptions });
}

/** Whether a server answers at a Unix socket. The file of a server that was killed stays. */
export function isSocketAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(true);
    });
    // A server of another user lives, although the connection is not permitted.
    probe.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code !== 'ECONNREFUSED' && code !== 'ENOENT'));
  });
}

/** An object that knows its index in a roster. The roster keeps the index up to date. */
export interface RosterMember {
  rosterIndex: number;
}

/**
 * A set of short-lived members. V8 links each outgrown hash table of a `Set` to the next one. Once a table is in the
 * old generation, all later tables and their former members stay in memory until a full garbage collection.
 */
export class Roster<T extends RosterMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  add(member: T): void {
    member.rosterIndex = this.#members.length;
    this.#members.push(member);
  }

  /** Removes a member. Does nothing when it is not in the roster. */
  delete(member: T): void {
    if (this.#members[member.rosterIndex] !== member) return;
    const lastMember = this.#members.pop()!;
    if (lastMember === member) return;
    this.#members[member.rosterIndex] = lastMember;
    lastMember.rosterIndex = member.rosterIndex;
  }

  /** Iterates over the members present when the iteration begins. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#members.slice().values();
  }
}

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
function clientUrl(address: ListenAddress, port: number): string {
  if (address.scheme === 'ldapi') return address.url;
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${address.scheme}://${host}:${port}`;
}

function invalidUrlError(url: string, reason: string): LdapError {
  return new LdapError('unwillingToPerform', `cannot listen on '${url}': ${reason}`);
}
