import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** What the sockets of this thread bring lands here, one read at a time. */
const landing = Buffer.allocUnsafeSlow(64 * 1024);

/** What Node keeps of a socket's system side. */
interface Internals {
  _handle?: { readonly useUserBuffer?: unknown } | null;
}

/**
 * Hands what `accepted` brings to `onBytes`, in buffers that are the receiver's own, and returns the socket to write
 * to.
 *
 * Node allocates 64 KiB for each read and passes the result through a stream, a fifth of the processor time of a small
 * request. Its sockets can read into one buffer instead (`onread`), but only if they are made so, and accepted ones are
 * not: the connection moves into one that is. Where that cannot be done the accepted socket is used as it is.
 */
export function startReading(accepted: Socket, onBytes: (bytes: Buffer) => void): Socket {
  const internals = accepted as Internals;
  const handle = internals._handle;
  if (accepted instanceof TLSSocket || typeof handle?.useUserBuffer !== 'function') {
    // It comes paused where it might have gone to another process.
    return accepted.on('data', onBytes).resume();
  }
  internals._handle = null;
  const socket = new Socket({
    handle,
    onread: {
      buffer: landing,
      callback(length: number): boolean {
        onBytes(Buffer.from(landing.subarray(0, length)));
        return true;
      },
    },
  } as object);
  // Whoever counts connections counts the accepted socket.
  return socket.once('close', () => accepted.destroy());
}
