import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';

/**
 * Takes up TLS as its server on a connection that was plain until now (RFC 4511 §4.14). The plain socket must have no
 * listeners left and nothing unread: what it read before belongs to the clear text.
 */
export function acceptTls(plain: Socket, secureContext: SecureContext): TLSSocket {
  return new TLSSocket(plain, { isServer: true, secureContext });
}

/** Whether the bytes of the socket travel under TLS. */
export function isEncrypted(socket: Socket): boolean {
  return socket instanceof TLSSocket;
}
