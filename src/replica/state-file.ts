import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'replica.json';

/** Whom a data folder follows, and how far its first copy is: `replica.json` in the folder. */
export interface ReplicaState {
  /**
   * Absent: the folder follows a primary. `primary`: it was promoted, and `of` has the former primaries. `fenced`: it
   * was the primary, and has heard of a newer term.
   */
  readonly role?: 'primary' | 'fenced' | undefined;
  /** URLs of the primary. With several, the first that answers and has the newest term. */
  readonly of: readonly string[];
  readonly name: string;
  /** Absolute path. */
  readonly passwordFile: string;
  readonly tlsCa?: string | undefined;
  /** Present until the copy is complete. */
  readonly copy?: CopyState | undefined;
  /** Of a fenced folder. */
  readonly newer?: NewerTerm | undefined;
  /** A primary that is handed over lets writes wait until then, in ms since 1970. */
  readonly heldUntil?: number | undefined;
  /** While a diverged folder is turned back: number of the first entry of the log that the primary lacks. */
  readonly rejoin?: string | undefined;
}

/** A term that another primary has begun. */
export interface NewerTerm {
  readonly term: number;
  /** Name of the replica that has told it. */
  readonly toldBy: string;
  /** When, in ms since 1970. */
  readonly since?: number | undefined;
  /** URLs of its primary, if known. */
  readonly urls: readonly string[];
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

export type Role = 'primary' | 'fenced' | 'replica';

/** Reads the file of a folder; undefined: the folder never had to do with another primary. */
export function readState(folder: string): ReplicaState | undefined {
  const path = join(folder, FILE);
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ReplicaState;
  } catch (error) {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads the file of a folder; undefined: the folder is no replica. */
export function readReplicaState(folder: string): ReplicaState | undefined {
  const state = readState(folder);
  return roleOf(state) === 'replica' ? state : undefined;
}

export function roleOf(state: ReplicaState | undefined): Role {
  return state ? (state.role ?? 'replica') : 'primary';
}

export function writeReplicaState(folder: string, state: ReplicaState): void {
  const path = join(folder, FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}

/** Says why a fenced folder takes no writes, and what helps. */
export function fencedText({ newer }: ReplicaState): string {
  const { term = 0, toldBy = '', urls = [] } = newer ?? {};
  const where = urls.length > 0 ? ` at ${urls.join(' ')}` : '';
  return `replica ${toldBy} has told of a primary of term ${term}${where}, so this one takes no writes; "rowan replica rejoin" makes it follow`;
}

/** Returns a function that reads the file of a folder anew when it has changed. It looks at the file each time. */
export function stateReader(folder: string): () => ReplicaState | undefined {
  const path = join(folder, FILE);
  let seen = '';
  let state: ReplicaState | undefined;
  return () => {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (!stats && !state) return undefined;
    const version = stats ? `${stats.ino} ${stats.mtimeMs}` : '';
    if (version !== seen) state = readState(folder);
    seen = version;
    return state;
  };
}

/**
 * Returns a function that says why clients may not write to the folder; undefined: they may. All processes and threads
 * of a server know of a change at once.
 */
export function writeRefusals(folder: string): () => { text: string; isMomentary: boolean } | undefined {
  const read = stateReader(folder);
  return () => {
    const state = read();
    if (!state) return undefined;
    if (state.role === 'fenced') return { text: fencedText(state), isMomentary: false };
    if (state.heldUntil !== undefined && Date.now() < state.heldUntil)
      return { text: 'the directory is handed over to another server; try again', isMomentary: true };
    if (state.role === 'primary') return undefined;
    return {
      text: `this is a replica of ${state.of.join(' ')}: commands that change the directory run there; clients may try again`,
      isMomentary: false,
    };
  };
}
