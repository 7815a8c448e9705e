/**
 * The errors of the store contract.
 *
 * | code | when | what the caller may do |
 * | --- | --- | --- |
 * | `guard` | a guard of the plan did not hold; nothing was done | read again, plan again |
 * | `noTable` | the table does not exist | create it |
 * | `conflict` | a table exists with another spec | nothing |
 * | `corrupt` | a row, page or file cannot be read as what it should be | `rowan check`, restore |
 * | `format` | the data belongs to a newer Rowan, or to something else | upgrade |
 * | `permission` | the folder or file may not be read or written | change the mode |
 * | `full` | no room on the device | free some, try again |
 * | `limit` | a key or value is longer than the engine takes | nothing |
 * | `unavailable` | the store cannot be reached or failed to answer; the plan may or may not have been applied when `applied` is 'unknown' | try again later |
 * | `closed` | the store was closed | nothing |
 */
export type StoreErrorCode =
  | 'guard'
  | 'noTable'
  | 'conflict'
  | 'corrupt'
  | 'format'
  | 'permission'
  | 'full'
  | 'limit'
  | 'unavailable'
  | 'closed';

export interface StoreErrorOptions {
  cause?: unknown;
  /** For `guard`: index of the step whose guard failed. */
  step?: number;
  /** Whether a rejected plan took effect. */
  applied?: 'no' | 'unknown';
}

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;
  readonly step: number | undefined;
  readonly applied: 'no' | 'unknown';

  constructor(code: StoreErrorCode, message: string, options: StoreErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.step = options.step;
    this.applied = options.applied ?? 'no';
  }
}
