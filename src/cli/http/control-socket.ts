import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isSocketAnswered } from '../../server/listen/listener.js';
import type { Config } from '../../server/settings/index.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';

/** Longest path that every system can bind a socket to, in bytes. */
export const MAX_PATH_BYTES = 103;
const NAME = /^control-(\d+)\.sock$/;

export interface ControlSocket {
  readonly path: string;
  /** Process id of the server, as in the name of the file. */
  readonly pid: number;
  readonly isAnswered: boolean;
}

export function controlSocketPath(folder: string, pid: number): string {
  return join(folder, `control-${pid}.sock`);
}

/** Folder of the control sockets of a directory; undefined for a directory in HBase without `control.folder`. */
export function controlFolder(config: Config, store = config.store ?? config.data): string | undefined {
  return config.control.folder ?? (store === undefined || isHBaseUrl(store) ? undefined : store);
}

/** Returns the control sockets in a folder. Rejects when the folder cannot be read. */
export async function controlSockets(folder: string): Promise<ControlSocket[]> {
  const names = await readdir(folder);
  const pids = names.flatMap((name) => NAME.exec(name)?.[1] ?? []).map(Number);
  return Promise.all(
    pids.map(async (pid) => {
      const path = controlSocketPath(folder, pid);
      return { path, pid, isAnswered: await isSocketAnswered(path) };
    }),
  );
}

/** Returns the sockets of all running servers of the directory in `config`. */
export async function answeredSockets(config: Config): Promise<ControlSocket[]> {
  const folder = controlFolder(config);
  if (folder === undefined || !existsSync(folder)) return [];
  return (await controlSockets(folder)).filter(({ isAnswered }) => isAnswered);
}

/** Removes the sockets of servers that were killed. */
export async function removeStaleSockets(folder: string): Promise<void> {
  const sockets = await controlSockets(folder);
  await Promise.all(sockets.filter((socket) => !socket.isAnswered).map(({ path }) => rm(path, { force: true })));
}
