import type { Server } from 'node:http';
import type { Socket } from 'node:net';

const MAX_CONNECTIONS = 512;
const MAX_CONNECTIONS_OF_ADDRESS = 16;

/**
 * Bounds the connections of a server, and those from one address. A new connection takes the place of the connection
 * that has been idle longest; where all wait for responses, the place of the oldest request.
 */
export function boundConnections(server: Server): void {
  /** Whether each connection waits for a response, in the order of their last begins and ends of requests. */
  const connections = new Map<Socket, boolean>();
  const renew = (socket: Socket, isBusy: boolean): void => {
    if (connections.delete(socket)) connections.set(socket, isBusy);
  };
  server.on('connection', (socket) => {
    const { remoteAddress } = socket;
    const all = [...connections];
    // Clients of a Unix socket have no address.
    const others = all.filter(([other]) => remoteAddress !== undefined && other.remoteAddress === remoteAddress);
    if (others.length >= MAX_CONNECTIONS_OF_ADDRESS) closeOne(others);
    else if (all.length >= MAX_CONNECTIONS) closeOne(all);
    connections.set(socket, false);
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', ({ socket }, response) => {
    renew(socket, true);
    response.once('close', () => renew(socket, false));
  });

  function closeOne(candidates: readonly (readonly [Socket, boolean])[]): void {
    const [socket] = candidates.find(([, isBusy]) => !isBusy) ?? candidates[0]!;
    connections.delete(socket);
    socket.destroy();
  }
}
