import type { AttributeType } from '../../schema/schema-types.js';
import type { Guard, RowStep } from '../../store/contract.js';
import { cellCounter, cellValue } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { STATE_TABLE, UUID_BYTES } from './tables.js';

/**
 * What binds leave behind about an account, in a row of table `state` (docs/formats/tables.md). Times are milliseconds
 * since 1970.
 */
export interface AccountState {
  /** When binds failed that still count, in their order. */
  readonly failures: readonly number[];
  /** Until when nobody binds because of them; 0: not locked; `Infinity`: until it is unlocked. */
  readonly lockedUntil: number;
  /** When its expired password was used. */
  readonly graceUses: readonly number[];
  /** When a bind succeeded last, as far as that is kept; 0: not known. */
  readonly lastSuccess: number;
  /** When its password was first seen under a policy, if it does not say when it was changed; 0: not yet. */
  readonly since: number;
  /** Which application passwords were used. */
  readonly uses: readonly PasswordUse[];
  /** Time step of the code that was taken last as a second factor (RFC 6238); 0: none was. */
  readonly totpStep: number;
}

export interface PasswordUse {
  /** Id of the application password: 16 hex digits. */
  readonly id: string;
  /** When, as far as that is kept. */
  readonly time: number;
}

export const NO_STATE: AccountState = {
  failures: [],
  lockedUntil: 0,
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

/** `Infinity` as it is stored. */
const NEVER = 0xffff_ffff_ffff_ffffn;

/** A row of the state and the version that its next change guards. */
export interface StoredState {
  readonly version: bigint;
  readonly state: AccountState;
}

/** Throws `corrupt` where a cell is none. */
export function stateOfRow(row: Buffer): StoredState {
  return {
    version: cellCounter(row, F, CELL.version),
    state: {
      failures: timesIn(row, CELL.failures),
      lockedUntil: timesIn(row, CELL.lockedUntil)[0] ?? 0,
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
  for (let at = 0; at < value.length; at += 8) {
    const ms = value.readBigUInt64BE(at);
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

function bytesOfUses(uses: readonly PasswordUse[]): Buffer {
  return Buffer.concat(uses.flatMap(({ id, time }) => [Buffer.from(id, 'hex'), bytesOf([time])]));
}

function bytesOf(times: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(times.length * 8);
  for (const [i, ms] of times.entries())
    bytes.writeBigUInt64BE(ms === Number.POSITIVE_INFINITY ? NEVER : BigInt(ms), i * 8);
  return bytes;
}

/** Step that puts the state of an entry in place of version `instead`; 0: there was none. */
export function stateStep(id: Buffer, state: AccountState, instead: bigint): RowStep {
  const { failures, lockedUntil, graceUses, lastSuccess, since, uses, totpStep } = state;
  const cells: (readonly [Buffer, Buffer])[] = [
    [CELL.failures, bytesOf(failures)],
    [CELL.graceUses, bytesOf(graceUses)],
    [CELL.lastSuccess, bytesOf(lastSuccess ? [lastSuccess] : [])],
    [CELL.lockedUntil, bytesOf(lockedUntil ? [lockedUntil] : [])],
    [CELL.since, bytesOf(since ? [since] : [])],
    [CELL.totpStep, bytesOf(totpStep ? [totpStep] : [])],
    [CELL.uses, bytesOfUses(uses)],
  ];
  const guards: Guard[] = [{ op: 'counterEquals', family: F, qualifier: CELL.version, value: instead }];
  const gone = cells.filter(([, value]) => value.length === 0);
  const come = cells.filter(([, value]) => value.length > 0);
  return {
    table: STATE_TABLE.name,
    key: id,
    guards,
    delete: gone.map(([qualifier]) => ({ family: F, qualifier })),
    put: come.map(([qualifier, value]) => ({ family: F, qualifier, value })),
    add: [{ family: F, qualifier: CELL.version, by: 1n }],
  };
}

/** Rows that failed binds as nobody are written to: they take as long as those as somebody, and hardly ever meet. */
const NOBODYS_ROWS = 16;

/** Whether the row belongs to nobody: its key is the number of the row, of 16 bytes. */
export function isNobodys(key: Buffer): boolean {
  return key.length === UUID_BYTES && key.at(-1)! < NOBODYS_ROWS && key.subarray(0, -1).every((byte) => byte === 0);
}

/** Writes to one of nobody's rows. */
export function nobodysStep(): RowStep {
  const key = Buffer.alloc(UUID_BYTES);
  key[UUID_BYTES - 1] = Math.floor(Math.random() * NOBODYS_ROWS);
  return { table: STATE_TABLE.name, key, add: [{ family: F, qualifier: CELL.version, by: 1n }] };
}

/**
 * Attributes that tell what binds have left behind about an account. Once something is known of it the values of the
 * first three are these alone, whatever an import has stored in the entry; the last is the administrator's, too, whose
 * value comes first.
 */
export const STATE_ATTRIBUTES = [
  'pwdFailureTime',
  'pwdGraceUseTime',
  'pwdLastSuccess',
  'pwdAccountLockedTime',
] as const;

export type StateAttribute = (typeof STATE_ATTRIBUTES)[number];

const LOCKED_TIME = '1.3.6.1.4.1.42.2.27.8.1.17';

/** Whether what the attribute says may stand in the account's state: then it is taken away there, too. */
export function standsElsewhere({ oid }: AttributeType): boolean {
  return oid === LOCKED_TIME;
}
