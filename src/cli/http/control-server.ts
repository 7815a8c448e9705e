import { once } from 'node:events';
import type { Server } from 'node:http';
import type { Logger } from 'pino';
import { describeError } from '../exit.js';
import type { Settings } from '../options.js';
import { controlFolder, controlSocketPath, MAX_PATH_BYTES, removeStaleSockets } from './control-socket.js';
import { createHttpServer, type Route } from './http-server.js';

/** Permissions that new files do not get: those of group and others, and execution. */
const PRIVATE_UMASK = 0o177;

/**
 * Listens on the control socket of this process, which its user alone may use. Resolves with no server, and logs why,
 * when there is no place for the socket: the server goes on without.
 */
export async function openControlServer(
  { config, store }: Settings,
  routes: readonly Route[],
  log: Logger,
): Promise<Server[]> {
  const folder = controlFolder(config, store);
  if (folder === undefined) {
    log.info('no control socket: a directory in HBase needs control.folder for commands that ask this server');
    return [];
  }
  const path = controlSocketPath(folder, process.pid);
  try {
    if (Buffer.byteLength(path) > MAX_PATH_BYTES)
      throw new Error(
        `${path} has more than ${MAX_PATH_BYTES} bytes; set control.folder to a folder with a short path`,
      );
    await removeStaleSockets(folder);
    return [await listenPrivately(createHttpServer(routes, log), path)];
  } catch (error) {
    log.warn(`no control socket, so that no command can ask this server: ${describeError(error)}`);
    return [];
  }
}

/** Others must not connect even between the creation of the file and a change of its permissions. */
async function listenPrivately(server: Server, path: string): Promise<Server> {
  const umask = process.umask(PRIVATE_UMASK);
  try {
    server.listen(path);
  } finally {
    process.umask(umask);
  }
  await once(server, 'listening');
  return server;
}

/** Stops listening and ends all connections, also those of responses without an end. */
export async function closeHttpServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}
