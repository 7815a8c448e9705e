import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'replica.json';

/** Whom a data folder follows, and how far its first copy is: `replica.json` in the folder. */
export interface ReplicaState {
  /** URLs of the primary. With several, the first that answers and has the newest term. */
  readonly of: readonly string[];
  readonly name: string;
  /** Absolute path. */
  readonly passwordFile: string;
  readonly tlsCa?: string | undefined;
  /** Number of the last entry of the log when the copy began. */
  readonly start?: string | undefined;
  /** Present until the copy is complete. */
  readonly copy?: CopyState | undefined;
}

export interface CopyState {
  /** Number of the last entry of the log when the copy began. */
  readonly start: string;
  readonly table?: string | undefined;
  /** In base64. */
  readonly lastKey?: string | undefined;
  /** Set when all tables are copied: the copy is consistent from this entry of the log on. */
  readonly until?: string | undefined;
}

/** Reads the file of a folder; undefined: the folder is no replica. */
export function readReplicaState(folder: string): ReplicaState | undefined {
  const path = join(folder, FILE);
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ReplicaState;
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

export function writeReplicaState(folder: string, state: ReplicaState): void {
  const path = join(folder, FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}
