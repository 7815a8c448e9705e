import type { AttributeDescription } from '../../schema/schema-types.js';
import type { Guard, RowStep, StoreFilter } from '../../store/contract.js';
import { cellCounter, cellValue } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { generalizedTime } from './csn.js';
import { STATE_TABLE, UUID_BYTES } from './tables.js';

/** The state that binds record for an account in table `state` (docs/formats/tables.md). Times: ms since 1970. */
export interface AccountState {
  /** Times of the failed binds that count towards a lock, oldest first. */
  readonly failures: readonly number[];
  /** Time until which binds are refused. 0: not locked; `Infinity`: locked until an operator unlocks the account. */
  readonly lockedUntil: number;
  /** When failed binds made the lock; 0: `lockedUntil` ends a delay, or a lock by an earlier version. */
  readonly lockedAt: number;
  /** Times of binds with the expired password (grace logins). */
  readonly graceUses: readonly number[];
  /** Time of the last recorded successful bind; 0: none. */
  readonly lastSuccess: number;
  /** Time when a password policy first applied to a password without pwdChangedTime; 0: none has applied. */
  readonly since: number;
  readonly uses: readonly PasswordUse[];
  /** Time step of the last TOTP code that was accepted as a second factor (RFC 6238); 0: none. */
  readonly totpStep: number;
}

export interface PasswordUse {
  /** Id of the application password: 16 hex digits. */
  readonly id: string;
  readonly time: number;
}

export const NO_STATE: AccountState = {
  failures: [],
  lockedUntil: 0,
  lockedAt: 0,
  graceUses: [],
  lastSuccess: 0,
  since: 0,
  uses: [],
  totpStep: 0,
};

const F = 0;
const q = (text: string) => Buffer.from(text);
const CELL = {
  failures: q('failures'),
  graceUses: q('graceUses'),
  lastSuccess: q('lastSuccess'),
  lockedUntil: q('lockedUntil'),
  since: q('since'),
  totpStep: q('totpStep'),
  uses: q('uses'),
  version: q('version'),
} as const;

/** Passes the rows of accounts that failed binds have locked or delayed, perhaps until a time that is past. */
export const HAS_LOCK: StoreFilter = { op: 'hasColumn', family: F, qualifier: CELL.lockedUntil };

/** The stored form of `Infinity`. */
const NEVER = 0xffff_ffff_ffff_ffffn;

/** State of an account and its version. A change of the state guards the version. */
export interface StoredState {
  readonly version: bigint;
  readonly state: AccountState;
}

/** Decodes a row of table `state`. Throws `corrupt` if a cell is malformed. */
export function stateOfRow(row: Buffer): StoredState {
  return {
    version: cellCounter(row, F, CELL.version),
    state: {
      failures: timesIn(row, CELL.failures),
      lockedUntil: timesIn(row, CELL.lockedUntil)[0] ?? 0,
      lockedAt: timesIn(row, CELL.lockedUntil)[1] ?? 0,
      graceUses: timesIn(row, CELL.graceUses),
      lastSuccess: timesIn(row, CELL.lastSuccess)[0] ?? 0,
      since: timesIn(row, CELL.since)[0] ?? 0,
      uses: usesIn(row),
      totpStep: timesIn(row, CELL.totpStep)[0] ?? 0,
    },
  };
}

function timesIn(row: Buffer, qualifier: Buffer): number[] {
  const value = cellValue(row, F, qualifier);
  if (!value) return [];
  if (value.length % 8 !== 0)
    throw new StoreError('corrupt', `a state row has a cell ${qualifier.toString()} that is none`);
  const times: number[] = [];
  for (let offset = 0; offset < value.length; offset += 8) {
    const ms = value.readBigUInt64BE(offset);
    times.push(ms === NEVER ? Number.POSITIVE_INFINITY : Number(ms));
  }
  return times;
}

const USE_BYTES = 16;

function usesIn(row: Buffer): PasswordUse[] {
  const value = cellValue(row, F, CELL.uses);
  if (!value) return [];
  if (value.length % USE_BYTES !== 0)
    throw new StoreError('corrupt', `a state row has a cell ${CELL.uses.toString()} that is none`);
  return Array.from({ length: value.length / USE_BYTES }, (_, i) => ({
    id: value.toString('hex', i * USE_BYTES, i * USE_BYTES + 8),
    time: Number(value.readBigUInt64BE(i * USE_BYTES + 8)),
  }));
}

function encodeTimes(times: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(times.length * 8);
  for (const [i, ms] of times.entries())
    bytes.writeBigUInt64BE(ms === Number.POSITIVE_INFINITY ? NEVER : BigInt(ms), i * 8);
  return bytes;
}

/** Returns the step that replaces the state with version `replacedVersion`; 0: the entry has no state yet. */
export function stateStep(id: Buffer, state: AccountState, replacedVersion: bigint): RowStep {
  const { failures, lockedUntil, lockedAt, graceUses, lastSuccess, since, uses, totpStep } = state;
  const cells: (readonly [Buffer, Buffer])[] = [
    [CELL.failures, encodeTimes(failures)],
    [CELL.graceUses, encodeTimes(graceUses)],
    [CELL.lastSuccess, encodeTimes(lastSuccess ? [lastSuccess] : [])],
    [CELL.lockedUntil, encodeTimes([lockedUntil, lockedAt].filter((ms) => ms !== 0))],
    [CELL.since, encodeTimes(since ? [since] : [])],
    [CELL.totpStep, encodeTimes(totpStep ? [totpStep] : [])],
    [CELL.uses, Buffer.concat(uses.flatMap(({ id, time }) => [Buffer.from(id, 'hex'), encodeTimes([time])]))],
  ];
  const guards: Guard[] = [{ op: 'counterEquals', family: F, qualifier: CELL.version, value: replacedVersion }];
  const emptyCells = cells.filter(([, value]) => value.length === 0);
  const filledCells = cells.filter(([, value]) => value.length > 0);
  return {
    table: STATE_TABLE.name,
    key: id,
    guards,
    delete: emptyCells.map(([qualifier]) => ({ family: F, qualifier })),
    put: filledCells.map(([qualifier, value]) => ({ family: F, qualifier, value })),
    add: [{ family: F, qualifier: CELL.version, by: 1n }],
  };
}

/** Number of decoy rows. A bind to an unknown name writes to a decoy row, to take as long as a failed bind. */
const DECOY_ROWS = 16;

/** Whether the key is that of a decoy row, which is a number in 16 bytes. */
export function isDecoyRow(key: Buffer): boolean {
  return key.length === UUID_BYTES && key.at(-1)! < DECOY_ROWS && key.subarray(0, -1).every((byte) => byte === 0);
}

/** Returns the step that writes to a random decoy row. */
export function decoyStep(): RowStep {
  const key = Buffer.alloc(UUID_BYTES);
  key[UUID_BYTES - 1] = Math.floor(Math.random() * DECOY_ROWS);
  return { table: STATE_TABLE.name, key, add: [{ family: F, qualifier: CELL.version, by: 1n }] };
}

/**
 * Operational attributes that show the state of an account. Once a state is stored, the values of the first three come
 * only from the state, not from values that an import has stored in the entry. An administrator can also set
 * pwdAccountLockedTime in the entry; this value then takes precedence.
 */
export const STATE_ATTRIBUTES = [
  'pwdFailureTime',
  'pwdGraceUseTime',
  'pwdLastSuccess',
  'pwdAccountLockedTime',
] as const;

export type StateAttribute = (typeof STATE_ATTRIBUTES)[number];

const LOCKED_TIME = '1.3.6.1.4.1.42.2.27.8.1.17';

/** Value of `pwdAccountLockedTime` for a lock without a time (draft-behera-10 §5.3.3). */
export const LOCKED_PERMANENTLY = '000001010000Z';

/**
 * Returns the value of `pwdAccountLockedTime` for a lock by failed binds that is in force at `now`; undefined: no lock,
 * or a delay. Locks by earlier versions have no time, and no failures: the `duration` (ms) of such a lock tells it.
 */
export function lockTimeOf(
  { failures, lockedUntil, lockedAt }: AccountState,
  now: number,
  duration = 0,
): Buffer | undefined {
  if (lockedUntil <= now || (lockedAt === 0 && failures.length > 0)) return undefined;
  if (lockedAt > 0) return formatMs(lockedAt);
  return Number.isFinite(lockedUntil) ? formatMs(lockedUntil - duration) : Buffer.from(LOCKED_PERMANENTLY);
}

/** Returns a generalizedTime. `micros`: digits after those of milliseconds. */
export function formatMs(ms: number, micros = ''): Buffer {
  const fraction = String(((ms % 1000) + 1000) % 1000).padStart(3, '0') + micros;
  return Buffer.from(generalizedTime(ms).replace('Z', `.${fraction}Z`));
}

/** Whether the account state may have a value of the attribute. Deleting the attribute then also clears the state. */
export function isInAccountState({ type, options }: AttributeDescription): boolean {
  return type.oid === LOCKED_TIME && options.length === 0;
}
