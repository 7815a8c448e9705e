import { readdir, unlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Config } from '../../server/settings/index.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';

/** Longest path that every system can bind a socket to, in bytes. */
export const MAX_PATH_BYTES = 103;
const NAME = /^control-(\d+)\.sock$/;

export interface ControlSocket {
  readonly path: string;
  /** Process id of the server, as in the name of the file. */
  readonly pid: number;
  /** Whether a server answers. The file of a server that was killed stays. */
  readonly isAnswered: boolean;
}

export function controlSocketPath(folder: string, pid: number): string {
  return join(folder, `control-${pid}.sock`);
}

/** Folder of the control sockets of a directory; undefined for a directory in HBase without `control.folder`. */
export function controlFolder({ control }: Config, store: string | undefined): string | undefined {
  return control.folder ?? (store === undefined || isHBaseUrl(store) ? undefined : store);
}

/** Returns the control sockets in a folder. Rejects when the folder cannot be read. */
export async function controlSockets(folder: string): Promise<ControlSocket[]> {
  const names = await readdir(folder);
  const pids = names.flatMap((name) => Number(NAME.exec(name)?.[1] ?? []));
  return Promise.all(
    pids.map(async (pid) => {
      const path = controlSocketPath(folder, pid);
      return { path, pid, isAnswered: await isAnswered(path) };
    }),
  );
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(true);
    });
    // A server of another user lives, although the connection is not permitted.
    probe.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code !== 'ECONNREFUSED' && code !== 'ENOENT'));
  });
}

/** Removes the sockets of servers that were killed. */
export async function removeStaleSockets(folder: string): Promise<void> {
  const sockets = await controlSockets(folder);
  await Promise.all(sockets.filter((socket) => !socket.isAnswered).map(({ path }) => removeFile(path)));
}

/** Another server may have removed the file before. */
async function removeFile(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
