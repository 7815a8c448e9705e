import type { Server as NetServer, Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import Server from 'ldapjs/lib/server.js';
import type { Logger } from 'pino';
import type { ListenAddress } from './listen-url.js';
import { Roster, type Seated } from './roster.js';
import type { TlsMaterial } from './tls-material.js';

export interface ReceiverOptions {
  readonly tls: TlsMaterial | undefined;
  readonly handshakeSeconds: number;
  readonly log: Logger;
  onConnection(socket: Socket): void;
}

/** Makes connections of the sockets of one URL, whoever listens there. */
export interface Receiver {
  /** To listen with, if it shall accept them itself. */
  readonly net: NetServer;
  /** A socket that somebody else has accepted. */
  receive(socket: Socket): void;
  /** New handshakes use this certificate; nothing where no TLS is spoken. */
  renew(tls: TlsMaterial): void;
  /** Ends the sockets of TLS that are left: no connection has come of their handshakes. */
  endHandshakes(): void;
}

/** A socket on which TLS has begun. */
interface Handshake extends Seated {
  readonly socket: Socket;
}

/** What takes the sockets of `address`. */
export function createReceiver(address: ListenAddress, options: ReceiverOptions): Receiver {
  const server = createServer(address, options);
  const net = server.server;
  // A handshake that fails or takes too long leaves its socket to us.
  net.on('tlsClientError', (_error, socket: Socket) => socket.destroy());
  // ldapjs repeats the errors of the server that listens, which has its own listener for them.
  server.on('error', () => undefined);
  const handshakes = new Roster<Handshake>();
  const keep = (socket: Socket): void => {
    const handshake = { socket, seat: -1 };
    handshakes.add(handshake);
    socket.once('close', () => handshakes.delete(handshake));
  };
  if (net instanceof TlsServer) net.on('connection', keep);
  return {
    net,
    receive: (socket) => void net.emit('connection', socket),
    renew: (tls) => {
      if (net instanceof TlsServer) net.setSecureContext({ ...tls, cert: tls.certificate });
    },
    endHandshakes: () => {
      for (const { socket } of handshakes) socket.destroy();
    },
  };
}

/**
 * ldapjs listens and does TLS; its connections come to us as they are (`connectionRouter`). Options it does not know
 * reach tls.createServer.
 */
function createServer(address: ListenAddress, options: ReceiverOptions): Server {
  const { tls } = options;
  const common = { log: options.log, connectionRouter: (socket: Socket) => options.onConnection(socket) };
  if (address.scheme !== 'ldaps') return new Server(common);
  if (!tls) throw new Error(`cannot listen on '${address.url}': no certificate is configured (tls.cert, tls.key)`);
  const secure = {
    certificate: tls.certificate,
    key: tls.key,
    minVersion: tls.minVersion,
    handshakeTimeout: options.handshakeSeconds * 1000,
    ...(tls.ca ? { ca: tls.ca } : {}),
  };
  return new Server({ ...common, ...secure });
}
