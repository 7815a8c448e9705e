import type { CellName, Guard, Reader, RowStep, TableSpec } from '../../store/contract.js';
import { cellCounter, cellValue, EMPTY, MARK } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import type { Draft } from './draft.js';
import { cutNorm, prefixEnd, UUID_BYTES } from './tables.js';
import type { Unique } from './value-rules.js';

/** Whose values are to be unique (docs/formats/tables.md). Made with the first uniqueness constraint. */
export const UNIQUE_TABLE: TableSpec = { name: 'unique', families: [{ name: 'owners' }] };

/** Entries, at most, that have one value: those in the scope of a constraint that is in force are one at most. */
export const MAX_OWNERS = 1000;

const NUMBER_BYTES = 4;
/** Fourth byte of a key, behind the constraint's number: its own row; one of a value; one of a value of several. */
const KIND = { state: 0, value: 1, several: 2 } as const;
const F = 0;
/** entryUUIDs, rising, one after another; empty: of more than `MAX_OWNERS` entries, or it once was. */
const OWNERS: CellName = { family: F, qualifier: Buffer.from('of') };
/** Counter in the constraint's own row: times a value came to several entries, or entries across its subtree's edge. */
const TOGETHER: CellName = { family: F, qualifier: Buffer.from('together') };
/** In the same row: the last entryUUID that was done by who makes the constraint's rows. */
const DONE: CellName = { family: F, qualifier: Buffer.from('at') };

function keyOf({ record }: Unique, kind: number, norm: Buffer = EMPTY): Buffer {
  const key = Buffer.allocUnsafe(NUMBER_BYTES + 1 + norm.length);
  key.writeUInt32BE(record.number);
  key[NUMBER_BYTES] = kind;
  norm.copy(key, NUMBER_BYTES + 1);
  return key;
}

/** Key of the row that says whose a value is; `norm`: its cut normal form. */
export function ownersKey(unique: Unique, norm: Buffer): Buffer {
  return keyOf(unique, KIND.value, norm);
}

/** Number of the constraint that a key belongs to, and the value of which the row says whose it is, if it does. */
export function uniqueKeyParts(key: Buffer): { number: number; value: Buffer | undefined; several: boolean } {
  const kind = key[NUMBER_BYTES];
  const value = kind === KIND.value || kind === KIND.several ? key.subarray(NUMBER_BYTES + 1) : undefined;
  return { number: key.readUInt32BE(), value, several: kind === KIND.several };
}

/** All rows of a constraint. */
export function uniqueRange(number: number): { from: Buffer; to: Buffer | undefined } {
  const from = Buffer.allocUnsafe(NUMBER_BYTES);
  from.writeUInt32BE(number);
  return { from, to: prefixEnd(from) };
}

/** Rows of values that several entries have: their keys end in the value. */
export function severalRange(unique: Unique): { from: Buffer; to: Buffer } {
  return { from: keyOf(unique, KIND.several), to: keyOf(unique, KIND.several + 1) };
}

/** Rows that say whose a value is. */
export function ownersRange(unique: Unique): { from: Buffer; to: Buffer } {
  return { from: keyOf(unique, KIND.value), to: keyOf(unique, KIND.several) };
}

/** Whose a value is. */
export interface Owners {
  /** The cell's bytes; undefined: nobody's. */
  readonly bytes: Buffer | undefined;
  /** Latin-1. */
  readonly ids: readonly string[];
  /** They are so many that nobody knows. */
  readonly many: boolean;
}

const NOBODY: Owners = { bytes: undefined, ids: [], many: false };

export function ownersOf(row: Buffer | undefined): Owners {
  if (!row) return NOBODY;
  const bytes = cellValue(row, OWNERS.family, OWNERS.qualifier);
  if (!bytes || bytes.length % UUID_BYTES !== 0)
    throw new StoreError('corrupt', 'a row of table unique does not say whose the value is; run `rowan check`');
  const ids: string[] = [];
  for (let at = 0; at < bytes.length; at += UUID_BYTES) ids.push(bytes.toString('latin1', at, at + UUID_BYTES));
  return { bytes, ids, many: bytes.length === 0 };
}

export const LATIN1 = (id: Buffer): string => id.toString('latin1');

/** Steps that make a value `after`'s, if it still is `before`'s. */
export function ownersSteps(unique: Unique, norm: Buffer, before: Owners, after: readonly string[]): RowStep[] {
  const many = before.many || after.length > MAX_OWNERS;
  const table = UNIQUE_TABLE.name;
  const guard: Guard = before.bytes ? { op: 'equals', ...OWNERS, value: before.bytes } : { op: 'absent', ...OWNERS };
  const value = many ? EMPTY : Buffer.from([...after].sort().join(''), 'latin1');
  const put = after.length > 0 || many ? { put: [{ ...OWNERS, value }] } : { deleteRow: true };
  const steps: RowStep[] = [{ table, key: ownersKey(unique, norm), guards: [guard], ...put }];
  const were = before.many || before.ids.length > 1;
  const are = many || after.length > 1;
  const several = keyOf(unique, KIND.several, norm);
  if (are && !were) steps.push({ table, key: several, put: [MARK] });
  if (were && !are) steps.push({ table, key: several, deleteRow: true });
  if (are && after.length > before.ids.length) steps.push(togetherStep(unique));
  return steps;
}

/** The only step of a value that was nobody's. */
export function firstOwnerStep(unique: Unique, norm: Buffer, id: Buffer): RowStep {
  return ownersSteps(unique, norm, NOBODY, [LATIN1(id)])[0]!;
}

/** Cells of a row that `firstOwnerStep` leaves, for who writes it otherwise. */
export function isFirstOwner({ table, guards }: RowStep): boolean {
  return table === UNIQUE_TABLE.name && guards?.[0]?.op === 'absent';
}

/** Row of values that several entries have, as it is kept. */
export function severalStep(unique: Unique, norm: Buffer, are: boolean): RowStep {
  const key = keyOf(unique, KIND.several, norm);
  return are ? { table: UNIQUE_TABLE.name, key, put: [MARK] } : { table: UNIQUE_TABLE.name, key, deleteRow: true };
}

/** Step of a plan that brings values, or entries, together; with `if` only while nobody else has. */
export function togetherStep(unique: Unique, ifStill?: bigint): RowStep {
  return {
    table: UNIQUE_TABLE.name,
    key: keyOf(unique, KIND.state),
    ...(ifStill !== undefined && { guards: [{ op: 'counterEquals', ...TOGETHER, value: ifStill }] }),
    add: [{ ...TOGETHER, by: 1n }],
  };
}

/** What a constraint's own row says. */
export interface UniqueState {
  readonly together: bigint;
  readonly done: Buffer | undefined;
}

export async function readUniqueState(reader: Reader, unique: Unique): Promise<UniqueState> {
  const row = await reader.get(UNIQUE_TABLE.name, keyOf(unique, KIND.state));
  return {
    together: cellCounter(row, TOGETHER.family, TOGETHER.qualifier),
    done: row && cellValue(row, DONE.family, DONE.qualifier),
  };
}

/** Step of who makes the rows: entries up to this one are done. */
export function doneStep(unique: Unique, id: Buffer): RowStep {
  return { table: UNIQUE_TABLE.name, key: keyOf(unique, KIND.state), put: [{ ...DONE, value: id }] };
}

/** Cut normal forms of the values that an entry has under a constraint, by Latin-1; its filter is not asked. */
export function uniqueValues({ types }: Unique, draft: Draft): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  for (const { description, values } of draft.attributes) {
    if (!types.has(description.type)) continue;
    for (const { bytes } of values) {
      const norm = description.type.equality?.normalize(bytes);
      if (!norm) continue;
      const cut = cutNorm(norm);
      found.set(cut.toString('latin1'), cut);
    }
  }
  return found;
}
