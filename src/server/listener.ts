import { chmod, unlink } from 'node:fs/promises';
import { connect, type Server as NetServer, type Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import ldapjs from 'ldapjs';
import type { Logger } from 'pino';
import { type ListenAddress, shownUrl } from './listen-url.js';
import type { TlsMaterial } from './tls-material.js';

export interface ListenerOptions {
  readonly tls: TlsMaterial | undefined;
  readonly handshakeSeconds: number;
  /** Connections at most, TLS handshakes that are not finished included; the system's backlog holds what is above. */
  readonly maxConnections: number;
  /** Permissions of an ldapi socket. */
  readonly socketMode: number;
  readonly log: Logger;
  onConnection(socket: Socket): void;
}

/** A URL that is listened on. */
export interface Listener {
  readonly url: string;
  /** New handshakes use this certificate; nothing where no TLS is spoken. */
  renew(tls: TlsMaterial): void;
  /** Stops accepting. Connections live on. */
  close(): void;
}

/** ldapjs's `Server` with what its types leave out. */
interface LdapjsServer {
  readonly server: NetServer;
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): void;
}

/** Opens one listener. Rejects with an error that names the URL. */
export async function openListener(address: ListenAddress, options: ListenerOptions): Promise<Listener> {
  const server = createServer(address, options);
  const net = server.server;
  net.maxConnections = options.maxConnections;
  let listening = false;
  // ldapjs repeats the socket's errors, those of listening too: `listen` rejects with them.
  // A handshake that fails or takes too long leaves its socket to us.
  net.on('tlsClientError', (_error, socket: Socket) => socket.destroy());
  server.on('error', (error) => {
    if (listening) warnRarely(options.log, address, error);
  });
  try {
    await listen(net, address);
  } catch (error) {
    if (!(await removeStaleSocket(address, error as NodeJS.ErrnoException))) throw cannotListen(address, error);
    await listen(net, address);
  }
  listening = true;
  if (address.scheme === 'ldapi') await chmod(address.path, options.socketMode);
  const bound = net.address();
  const url = shownUrl(address, bound !== null && typeof bound === 'object' ? bound.port : 0);
  return {
    url,
    renew: (tls) => {
      if (net instanceof TlsServer) net.setSecureContext({ ...tls, cert: tls.certificate });
    },
    close: () => void net.close(),
  };
}

/** ldapjs listens and does TLS; its connections come to us as they are (`connectionRouter`). Options it does not know reach tls.createServer. */
function createServer(address: ListenAddress, options: ListenerOptions): LdapjsServer {
  const { tls } = options;
  const common = { log: options.log, connectionRouter: (socket: Socket) => options.onConnection(socket) };
  if (address.scheme !== 'ldaps') return ldapjs.createServer(common) as unknown as LdapjsServer;
  if (!tls) throw new Error(`cannot listen on '${address.url}': no certificate is configured (tls.cert, tls.key)`);
  const secure = {
    certificate: tls.certificate,
    key: tls.key,
    minVersion: tls.minVersion,
    handshakeTimeout: options.handshakeSeconds * 1000,
    ...(tls.ca ? { ca: tls.ca } : {}),
  };
  return ldapjs.createServer({ ...common, ...secure }) as unknown as LdapjsServer;
}

function listen(net: NetServer, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    net.once('error', reject);
    const listening = (): void => {
      net.off('error', reject);
      resolve();
    };
    if (address.scheme === 'ldapi') net.listen(address.path, listening);
    else net.listen({ host: address.host, port: address.port, backlog: 1024 }, listening);
  });
}

/** A socket file whose server is gone is in the way of the next one. True when it was removed. */
async function removeStaleSocket(address: ListenAddress, error: NodeJS.ErrnoException): Promise<boolean> {
  if (address.scheme !== 'ldapi' || error.code !== 'EADDRINUSE') return false;
  const answered = await new Promise<boolean>((resolve) => {
    const probe = connect(address.path, () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', (e: NodeJS.ErrnoException) => resolve(e.code !== 'ECONNREFUSED'));
  });
  if (answered) return false;
  await unlink(address.path);
  return true;
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the address is in use by another program',
  EACCES: 'permission denied (ports below 1024 need a privilege)',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'the host name is unknown',
};

function cannotListen(address: ListenAddress, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  // libuv says EACCES where it means ENOENT, too.
  const folder =
    address.scheme === 'ldapi' && code === 'EACCES' ? 'its folder does not exist or may not be written' : undefined;
  const reason = folder ?? (code && REASONS[code]) ?? message;
  return new Error(`cannot listen on '${address.url}': ${reason}`, { cause: error });
}

let warnedAt = Number.NEGATIVE_INFINITY;

/** No file descriptor for a new connection (EMFILE) and the like: it is refused, the others go on, accepting goes on. */
function warnRarely(log: Logger, address: ListenAddress, error: NodeJS.ErrnoException): void {
  const now = performance.now();
  if (now - warnedAt < 1000) return;
  warnedAt = now;
  log.warn({ url: address.url, code: error.code }, 'a connection could not be accepted');
}
