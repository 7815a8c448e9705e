import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';

/**
 * Takes up TLS as its server on a connection that was plain until now (RFC 4511 §4.14). The plain socket must have no
 * listeners left and nothing unread: what it read before belongs to the clear text.
 */
export function acceptTls(plain: Socket, secureContext: SecureContext): TLSSocket {
  return new TLSSocket(plain, { isServer: true, secureContext });
}

/** What nobody can listen to counts as much as the strongest cipher. */
const WITHIN_MACHINE = 256;
const CHACHA = 256;

/**
 * Bits of the cipher that the socket's bytes travel under; of a socket of this machine as many as the strongest has.
 */
export function strengthOf(socket: Socket): number {
  if (!(socket instanceof TLSSocket)) return socket.remoteAddress === undefined ? WITHIN_MACHINE : 0;
  const { name } = socket.getCipher() ?? { name: '' };
  const bits = /(?:AES_?|ARIA|CAMELLIA)(\d{3})/.exec(name)?.[1];
  return bits ? Number(bits) : name.includes('CHACHA20') ? CHACHA : 0;
}

/** Whether the bytes of the socket travel under TLS. */
export function isEncrypted(socket: Socket): boolean {
  return socket instanceof TLSSocket;
}
