import type { Server as NetServer, Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import Server from 'ldapjs/lib/server.js';
import type { Logger } from 'pino';
import type { ListenAddress } from './listen-url.js';
import { Roster, type RosterMember } from './roster.js';
import type { TlsMaterial } from './tls-material.js';

export interface ReceiverOptions {
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
  const server = createServer(address, options);
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
function createServer(address: ListenAddress, options: ReceiverOptions): Server {
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
