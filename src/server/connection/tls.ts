import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';

/**
 * Starts TLS as the server side on a plain connection (RFC 4511 §4.14). The plain socket must have no listeners and no
 * unread bytes, because bytes read before belong to the clear text.
 */
export function acceptTls(plain: Socket, secureContext: SecureContext): TLSSocket {
  return new TLSSocket(plain, { isServer: true, secureContext });
}

/** Strength of a local socket: as much as the strongest cipher. */
const LOCAL_STRENGTH = 256;
const CHACHA_STRENGTH = 256;

/** Returns the key length of the socket's cipher in bits: 256 for a local socket, 0 without TLS. */
export function cipherStrength(socket: Socket): number {
  if (!(socket instanceof TLSSocket)) return socket.remoteAddress === undefined ? LOCAL_STRENGTH : 0;
  const { name } = socket.getCipher() ?? { name: '' };
  const keyBits = /(?:AES_?|ARIA|CAMELLIA)(\d{3})/.exec(name)?.[1];
  return keyBits ? Number(keyBits) : name.includes('CHACHA20') ? CHACHA_STRENGTH : 0;
}

export function isEncrypted(socket: Socket): boolean {
  return socket instanceof TLSSocket;
}
