import type { CellName, Guard, Reader, RowStep, TableSpec } from '../../store/contract.js';
import { cellCounter, cellValue, EMPTY, MARK } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import type { Draft } from './draft.js';
import { cutNorm, prefixEnd, UUID_BYTES } from './tables.js';
import type { Constraint } from './value-rules.js';

/** The owners of values under uniqueness constraints (docs/formats/tables.md). Created with the first constraint. */
export const UNIQUE_TABLE: TableSpec = { name: 'unique', families: [{ name: 'owners' }] };

/** The most owners that a row lists. In the scope of a constraint in force, a value has at most one owner. */
export const MAX_OWNERS = 1000;

const NUMBER_BYTES = 4;
/** The byte of a key after the constraint's number: kind of the row. */
const KIND = { state: 0, value: 1, several: 2 } as const;
const F = 0;
/** entryUUIDs of the owners, ascending. Empty: more than `MAX_OWNERS` entries have, or had, the value. */
const OWNERS: CellName = { family: F, qualifier: Buffer.from('of') };
/** Counter in the state row: values that got a second owner, and moves of entries into or out of the subtree. */
const CONFLICTS: CellName = { family: F, qualifier: Buffer.from('together') };
/** Progress of the build, in the state row: the last entryUUID that the build has processed. */
const PROGRESS: CellName = { family: F, qualifier: Buffer.from('at') };

function uniqueRowKey({ record }: Constraint, kind: number, norm: Buffer = EMPTY): Buffer {
  const key = Buffer.allocUnsafe(NUMBER_BYTES + 1 + norm.length);
  key.writeUInt32BE(record.number);
  key[NUMBER_BYTES] = kind;
  norm.copy(key, NUMBER_BYTES + 1);
  return key;
}

/** Returns the key of the row with the owners of a value; `norm` is its cut normal form. */
export function ownersRowKey(unique: Constraint, norm: Buffer): Buffer {
  return uniqueRowKey(unique, KIND.value, norm);
}

/** Decodes a key: the number of the constraint, and the cut normal form if the row is about a value. */
export function parseUniqueKey(key: Buffer): { number: number; norm: Buffer | undefined; hasSeveral: boolean } {
  const kind = key[NUMBER_BYTES];
  const norm = kind === KIND.value || kind === KIND.several ? key.subarray(NUMBER_BYTES + 1) : undefined;
  return { number: key.readUInt32BE(), norm, hasSeveral: kind === KIND.several };
}

export function uniqueRange(number: number): { from: Buffer; to: Buffer | undefined } {
  const from = Buffer.allocUnsafe(NUMBER_BYTES);
  from.writeUInt32BE(number);
  return { from, to: prefixEnd(from) };
}

/** Returns the range of the rows that list the values with several owners. The keys end in the value. */
export function severalRange(unique: Constraint): { from: Buffer; to: Buffer } {
  return { from: uniqueRowKey(unique, KIND.several), to: uniqueRowKey(unique, KIND.several + 1) };
}

export function ownersRange(unique: Constraint): { from: Buffer; to: Buffer } {
  return { from: uniqueRowKey(unique, KIND.value), to: uniqueRowKey(unique, KIND.several) };
}

export interface Owners {
  /** Bytes of the cell. Undefined: the value has no owners. */
  readonly bytes: Buffer | undefined;
  /** entryUUIDs as Latin-1. */
  readonly ids: readonly string[];
  /** Whether there are too many owners to list. */
  readonly isTruncated: boolean;
}

const NO_OWNERS: Owners = { bytes: undefined, ids: [], isTruncated: false };

export function parseOwners(row: Buffer | undefined): Owners {
  if (!row) return NO_OWNERS;
  const bytes = cellValue(row, OWNERS.family, OWNERS.qualifier);
  if (!bytes || bytes.length % UUID_BYTES !== 0)
    throw new StoreError('corrupt', 'a row of table unique does not say whose the value is; run `rowan check`');
  const ids: string[] = [];
  for (let i = 0; i < bytes.length; i += UUID_BYTES) ids.push(bytes.toString('latin1', i, i + UUID_BYTES));
  return { bytes, ids, isTruncated: bytes.length === 0 };
}

export const idText = (id: Buffer): string => id.toString('latin1');

/** Returns the steps that replace the owners of a value by `newIds`. The guard fails if the owners have changed. */
export function ownersSteps(unique: Constraint, norm: Buffer, owners: Owners, newIds: readonly string[]): RowStep[] {
  const isTruncated = owners.isTruncated || newIds.length > MAX_OWNERS;
  const table = UNIQUE_TABLE.name;
  const guard: Guard = owners.bytes ? { op: 'equals', ...OWNERS, value: owners.bytes } : { op: 'absent', ...OWNERS };
  const value = isTruncated ? EMPTY : Buffer.from([...newIds].sort().join(''), 'latin1');
  const put = newIds.length > 0 || isTruncated ? { put: [{ ...OWNERS, value }] } : { deleteRow: true };
  const steps: RowStep[] = [{ table, key: ownersRowKey(unique, norm), guards: [guard], ...put }];
  const hadSeveral = owners.isTruncated || owners.ids.length > 1;
  const hasSeveral = isTruncated || newIds.length > 1;
  const severalKey = uniqueRowKey(unique, KIND.several, norm);
  if (hasSeveral && !hadSeveral) steps.push({ table, key: severalKey, put: [MARK] });
  if (hadSeveral && !hasSeveral) steps.push({ table, key: severalKey, deleteRow: true });
  if (hasSeveral && newIds.length > owners.ids.length) steps.push(conflictStep(unique));
  return steps;
}

/** Returns the only step that a value without owners needs. */
export function firstOwnerStep(unique: Constraint, norm: Buffer, id: Buffer): RowStep {
  return ownersSteps(unique, norm, NO_OWNERS, [idText(id)])[0]!;
}

/** Whether the step is a `firstOwnerStep`. The bulk load writes the row of such a step directly. */
export function isFirstOwner({ table, guards }: RowStep): boolean {
  return table === UNIQUE_TABLE.name && guards?.[0]?.op === 'absent';
}

/** Returns the step that writes or deletes the row for a value with several owners. */
export function severalStep(unique: Constraint, norm: Buffer, hasSeveral: boolean): RowStep {
  const key = uniqueRowKey(unique, KIND.several, norm);
  return hasSeveral
    ? { table: UNIQUE_TABLE.name, key, put: [MARK] }
    : { table: UNIQUE_TABLE.name, key, deleteRow: true };
}

/** Returns the step that counts a value with several owners. Its guard fails if the count is not `expectedCount`. */
export function conflictStep(unique: Constraint, expectedCount?: bigint): RowStep {
  return {
    table: UNIQUE_TABLE.name,
    key: uniqueRowKey(unique, KIND.state),
    ...(expectedCount !== undefined && { guards: [{ op: 'counterEquals', ...CONFLICTS, value: expectedCount }] }),
    add: [{ ...CONFLICTS, by: 1n }],
  };
}

export interface UniqueState {
  readonly conflictCount: bigint;
  readonly doneId: Buffer | undefined;
}

export async function readUniqueState(reader: Reader, unique: Constraint): Promise<UniqueState> {
  const row = await reader.get(UNIQUE_TABLE.name, uniqueRowKey(unique, KIND.state));
  return {
    conflictCount: cellCounter(row, CONFLICTS.family, CONFLICTS.qualifier),
    doneId: row && cellValue(row, PROGRESS.family, PROGRESS.qualifier),
  };
}

/** Returns the step that records the progress of the build: entries up to `id` are processed. */
export function progressStep(unique: Constraint, id: Buffer): RowStep {
  return { table: UNIQUE_TABLE.name, key: uniqueRowKey(unique, KIND.state), put: [{ ...PROGRESS, value: id }] };
}

/** Returns the cut normal forms of an entry's values under a constraint, by Latin-1 text. Ignores the filter. */
export function uniqueValues({ types }: Constraint, draft: Draft): Map<string, Buffer> {
  const norms = new Map<string, Buffer>();
  for (const { description, values } of draft.attributes) {
    if (!types.has(description.type)) continue;
    for (const { bytes } of values) {
      const norm = description.type.equality?.normalize(bytes);
      if (!norm) continue;
      const cut = cutNorm(norm);
      norms.set(cut.toString('latin1'), cut);
    }
  }
  return norms;
}
