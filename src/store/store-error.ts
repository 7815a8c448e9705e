/**
 * The errors of the store contract.
 *
 * | code | when | remedy |
 * | --- | --- | --- |
 * | `guard` | a guard of the plan did not hold; nothing was done | read again, plan again |
 * | `noTable` | the table does not exist | create it |
 * | `missing` | the table is listed but gone: somebody else has dropped it; `table`: which | create it |
 * | `conflict` | a table exists with another spec | nothing |
 * | `corrupt` | a file or message is malformed | restore; try again |
 * | `damaged` | stored bytes differ from the written bytes; `table`, `key`: where, if known | `rowan check`, restore |
 * | `held` | the data is damaged, and writes are blocked until the operator releases them | `rowan check` |
 * | `format` | the data belongs to a newer Rowan, or to something else | upgrade |
 * | `notPrimary` | another server takes the writes of this directory; the message is for clients | write there |
 * | `permission` | the folder or file may not be read or written | change the mode |
 * | `full` | no room on the device | free some, try again |
 * | `limit` | a key or value is longer than the engine accepts | nothing |
 * | `unavailable` | no answer; a plan may have been applied when `applied` is 'unknown' | try again later |
 * | `closed` | the store was closed | nothing |
 */
export type StoreErrorCode =
  | 'guard'
  | 'noTable'
  | 'missing'
  | 'conflict'
  | 'corrupt'
  | 'damaged'
  | 'held'
  | 'format'
  | 'notPrimary'
  | 'permission'
  | 'full'
  | 'limit'
  | 'unavailable'
  | 'closed';

export interface StoreErrorOptions {
  cause?: unknown;
  /** For `guard`: index of the step whose guard failed. */
  step?: number;
  /** Whether a rejected plan was applied. */
  applied?: 'no' | 'unknown';
  /** For `damaged` and `missing`: the table, and the key of the row in it. */
  table?: string;
  key?: Buffer;
}

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;
  readonly step: number | undefined;
  readonly applied: 'no' | 'unknown';
  readonly table: string | undefined;
  readonly key: Buffer | undefined;

  constructor(code: StoreErrorCode, message: string, options: StoreErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.step = options.step;
    this.applied = options.applied ?? 'no';
    this.table = options.table;
    this.key = options.key;
  }
}

/** A `damaged` error for a row, or for a whole table without `key`. `detail` describes the damage. */
export function damaged(table: string, key: Buffer | undefined, detail: string, cause?: unknown): StoreError {
  const location = key ? `row ${key.toString('hex')} of table ${table}` : `table ${table}`;
  return new StoreError('damaged', `${location} is damaged: ${detail}`, { table, cause, ...(key && { key }) });
}

/** True if the error says that a guard of a plan did not hold, so that nothing was written. */
export function isGuardFailure(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === 'guard';
}

/** True if the error says that a listed table does not exist, and which. */
export function isMissing(error: unknown): error is StoreError & { readonly table: string } {
  return error instanceof StoreError && error.code === 'missing';
}

/** True if the error says that a table does not exist, whether or not one is listed. */
export function isNoTable(error: unknown): boolean {
  return error instanceof StoreError && (error.code === 'noTable' || error.code === 'missing');
}

/** Awaits a commit. Resolves with false if a guard of the plan did not hold, and rejects with every other error. */
export async function guardsHold(commit: Promise<void>): Promise<boolean> {
  try {
    await commit;
    return true;
  } catch (error) {
    if (isGuardFailure(error)) return false;
    throw error;
  }
}

/** Returns whether a failed plan may have been applied nevertheless. */
export function mayBeApplied(error: unknown): boolean {
  return error instanceof StoreError && error.applied === 'unknown';
}

/** Parses JSON from the store. Throws `corrupt` with `place`, which names the row, if it is malformed. */
export function parseStoredJson<T>(bytes: Buffer, place: string): T {
  try {
    return JSON.parse(bytes.toString()) as T;
  } catch (cause) {
    throw new StoreError('corrupt', `${place} is damaged: it is not JSON; restore a backup`, { cause });
  }
}
