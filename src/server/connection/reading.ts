import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** The read buffer of all sockets of this thread. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024);

/** The internal field in which Node keeps a socket's system handle. */
interface SocketInternals {
  _handle?: { readonly useUserBuffer?: unknown } | null;
}

/**
 * Passes the bytes received on `accepted` to `onBytes`, in buffers that the callee owns, and returns the socket to
 * write to.
 *
 * Node allocates 64 KiB for each read and passes the result through a stream, a fifth of the processor time of a small
 * request. Node's sockets can read into one buffer instead (`onread`), but only when they are created with that option,
 * and accepted sockets are not. So the system handle moves to a new socket with the option. The accepted socket is used
 * unchanged when the handle cannot move.
 */
export function startReading(accepted: Socket, onBytes: (bytes: Buffer) => void): Socket {
  const socketInternals = accepted as SocketInternals;
  const handle = socketInternals._handle;
  if (accepted instanceof TLSSocket || typeof handle?.useUserBuffer !== 'function') {
    // A server with workers accepts sockets paused, so that no byte is read before a worker has the socket.
    return accepted.on('data', onBytes).resume();
  }
  socketInternals._handle = null;
  const socket = new Socket({
    handle,
    onread: {
      buffer: readBuffer,
      callback(length: number): boolean {
        onBytes(Buffer.from(readBuffer.subarray(0, length)));
        return true;
      },
    },
  } as object);
  // The server that accepted the socket counts its connections by the accepted socket.
  return socket.once('close', () => accepted.destroy());
}
