import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe, Store } from '../../store/contract.js';
import { cellValue, compareCells, EMPTY, packSorted, unpackRow } from '../../store/row.js';
import { type Edit, editRow } from '../../store/row-edit.js';
import { DISORDER_MS, type NumberedChange, recordsBack, timeMs } from '../feed/change-reader.js';
import { decodeBefore } from '../model/before-image.js';
import { csnMicros } from '../model/csn.js';
import { type DescriptionTable, INDEX_BYTES } from '../model/descriptions.js';
import { valueQualifier } from '../model/entry-cells.js';
import {
  CHANGES_TABLE,
  DELETED,
  DELETED_TABLE,
  DELETION,
  largeQualifiers,
  MASTER,
  MASTER_TABLE,
  Q,
} from '../model/tables.js';

/** The most change records behind a moment. Their before-images are in memory. */
const MAX_CHANGES = 1_000_000;

/** What bounds the reading of change records. */
export interface ReadBounds {
  /** Most change records of a client. */
  readonly maxChanges?: number;
  /** Called after each record. Ends the reading by an error. */
  readonly pause?: () => Maybe<void>;
}
/** How often records are read again for an entry whose row is newer than the records that are known. */
const MAX_READS = 3;
const ENTRY_CSN = valueQualifier('entryCSN', 0);

/** A change record with the packed master rows before and after it; undefined: the entry was not there. */
export interface ChangeStep {
  readonly record: NumberedChange;
  readonly before: Buffer | undefined;
  readonly after: Buffer | undefined;
}

/**
 * Master rows as they were at a moment: each row as it is now, or as table `deleted` has it, with the changes since the
 * moment undone by their before-images. Rows keep present secrets and pointers of large values; see `shownRow`.
 */
export class FormerRows {
  readonly #store: Store;
  readonly #atMs: number;
  /** entryUUIDs, Latin-1, of the entries whose changes are kept in memory; undefined: of all. */
  readonly #onlyIds: ReadonlySet<string> | undefined;
  readonly #bounds: ReadBounds;
  readonly #changesById = new Map<string, NumberedChange[]>();
  readonly #rowsById = new Map<string, Buffer | undefined>();
  #count = 0;
  #readUpTo = 0n;
  #readAtMs = 0;
  /** DNs, UTF-8, of entries that were deleted since the moment, and whose values are not kept any more. */
  readonly lostNames: Buffer[] = [];
  /** entryUUIDs, Latin-1, of rows that lack values over 64 KiB which changes removed. */
  readonly #cutIds = new Set<string>();

  private constructor(store: Store, atMs: number, onlyIds: ReadonlySet<string> | undefined, bounds: ReadBounds) {
    this.#store = store;
    this.#atMs = atMs;
    this.#onlyIds = onlyIds;
    this.#bounds = bounds;
  }

  /**
   * Reads the change records since a moment, milliseconds since 1970. Throws `unwillingToPerform` if not all are kept
   * any more, and `adminLimitExceeded` if there are more than a million, or than `bounds` allow. With `onlyIds`, only
   * the records of these entries count, and those that are kept suffice.
   */
  static async open(
    store: Store,
    atMs: number,
    onlyIds?: readonly Buffer[],
    bounds: ReadBounds = {},
  ): Promise<FormerRows> {
    const rows = new FormerRows(store, atMs, onlyIds && new Set(onlyIds.map((id) => id.toString('latin1'))), bounds);
    const oldestMs = await rows.renew();
    if (oldestMs > atMs && !onlyIds) {
      const since = Number.isFinite(oldestMs) ? new Date(oldestMs).toISOString() : 'now';
      throw new LdapError('unwillingToPerform', `change records are kept since ${since}; ask for a later time`);
    }
    return rows;
  }

  /** Reads the records that are not known yet. Resolves with the time of the oldest one that was read. */
  async renew(): Promise<number> {
    this.#store.renewReads?.();
    this.#readAtMs = Date.now();
    const settled = await this.#store.settled(CHANGES_TABLE.name);
    let oldestMs = Number.POSITIVE_INFINITY;
    for await (const record of recordsBack(this.#store, settled, this.#readUpTo)) {
      oldestMs = Math.min(oldestMs, timeMs(record));
      if (oldestMs <= this.#atMs - DISORDER_MS) break;
      this.#add(record);
      await this.#bounds.pause?.();
    }
    this.#readUpTo = settled;
    for (const changes of this.#changesById.values()) changes.sort((a, b) => (a.csn < b.csn ? 1 : -1));
    return oldestMs;
  }

  #add(record: NumberedChange): void {
    const id = record.id.toString('latin1');
    if (this.#onlyIds?.has(id) === false) return;
    const { maxChanges = MAX_CHANGES } = this.#bounds;
    if (++this.#count > Math.min(maxChanges, MAX_CHANGES))
      throw new LdapError(
        'adminLimitExceeded',
        `there are more changes since that time than may be read; ask for a later`,
      );
    const changes = this.#changesById.get(id);
    if (changes) changes.push(record);
    else this.#changesById.set(id, [record]);
  }

  /** The entries that were changed, added or deleted since the moment. */
  *changedIds(): Generator<Buffer> {
    for (const [id, changes] of this.#changesById)
      if (changes.some((record) => timeMs(record) > this.#atMs)) yield Buffer.from(id, 'latin1');
  }

  isChanged(id: Buffer): boolean {
    return this.#changesById.get(id.toString('latin1'))?.some((record) => timeMs(record) > this.#atMs) ?? false;
  }

  isRenamed(id: Buffer): boolean {
    return this.#changesById.get(id.toString('latin1'))?.some(({ op }) => op === 'rename') ?? false;
  }

  /** Whether the former row of an entry, as `shownRow` gives it, lacks values over 64 KiB that the entry had. */
  isCut(id: Buffer, row: Buffer): boolean {
    return this.#cutIds.has(id.toString('latin1')) || (largeQualifiers(row)?.size ?? 0) > 0;
  }

  /** Whether a row may have changes that are not known yet. */
  mayBeNewer(row: Buffer): boolean {
    return csnMicros(csnOf(row)) / 1000 >= this.#readAtMs - DISORDER_MS;
  }

  /** Returns the row of an entry at the moment; undefined: the entry was not there. */
  async rowOf(id: Buffer): Promise<Buffer | undefined> {
    const key = id.toString('latin1');
    if (!this.#rowsById.has(key)) this.#rowsById.set(key, await this.#load(id));
    return this.#rowsById.get(key);
  }

  async #load(id: Buffer): Promise<Buffer | undefined> {
    const { row, steps } = await this.stepsOf(id);
    let former = row;
    for await (const { before } of steps) former = before;
    return former;
  }

  /**
   * Returns the present row of an entry, undefined if it is gone, and what the changes since the moment did to it, the
   * newest first.
   */
  async stepsOf(id: Buffer): Promise<{ readonly row: Buffer | undefined; readonly steps: AsyncGenerator<ChangeStep> }> {
    for (let reads = 0; ; reads++) {
      const row = await this.#store.get(MASTER_TABLE.name, id);
      const all = this.#changesById.get(id.toString('latin1')) ?? [];
      // Changes that came after the row was read are not in it.
      const changes = row ? all.filter(({ csn }) => csn <= csnOf(row)) : all;
      const isComplete = row
        ? changes[0]?.csn === csnOf(row) || (changes.length === all.length && !this.mayBeNewer(row))
        : all.length === 0 || all[0]!.op === 'delete';
      if (!isComplete && reads < MAX_READS) {
        await this.renew();
        continue;
      }
      while (changes.length > 0 && timeMs(changes.at(-1)!) <= this.#atMs) changes.pop();
      return { row, steps: this.#undoAll(id, row, changes) };
    }
  }

  async *#undoAll(id: Buffer, present: Buffer | undefined, changes: NumberedChange[]): AsyncGenerator<ChangeStep> {
    let isThere = present !== undefined;
    let row = present;
    for (const record of changes) {
      const after = isThere ? row : undefined;
      const { op, beforeImage } = record;
      if (op === 'add') row = undefined;
      else if (op === 'delete') row ??= await this.#deletedRow(id, record);
      else if (row && beforeImage) row = this.#undo(id, row, beforeImage);
      isThere = op !== 'add' && op !== 'restore';
      yield { record, before: isThere ? row : undefined, after };
    }
  }

  /** Returns the row that a deletion has kept. If it is gone, the name of the entry is noted. */
  async #deletedRow(id: Buffer, { dn, time }: NumberedChange): Promise<Buffer | undefined> {
    const row = await this.#store.get(DELETED_TABLE.name, id);
    if (row && cellValue(row, DELETED.deletion, DELETION.time)?.equals(time))
      return packSorted(unpackRow(row).filter(({ family }) => family !== DELETED.deletion));
    this.lostNames.push(Buffer.from(dn));
    return undefined;
  }

  /** Returns the row before a change. A large value that the change removed is not kept, and is left out. */
  #undo(id: Buffer, row: Buffer, image: Buffer): Buffer {
    const { info, attributes } = decodeBefore(image);
    const edits: Edit[] = [...info].map(([name, value]) => ({
      family: MASTER.treeInfo,
      qualifier: Buffer.from(name, 'latin1'),
      value,
    }));
    for (const { description, old, added } of attributes) {
      const edit = (index: number, value: Buffer | undefined): Edit => ({
        family: MASTER.upAttributes,
        qualifier: valueQualifier(description, index),
        value,
      });
      for (const index of added) edits.push(edit(index, undefined));
      for (const { index, bytes, isLarge } of old) edits.push(edit(index, isLarge ? undefined : bytes));
      if (old.some(({ isLarge }) => isLarge)) this.#cutIds.add(id.toString('latin1'));
    }
    return editRow(row, edits.sort(compareCells)) ?? EMPTY;
  }
}

function csnOf(row: Buffer): string {
  return cellValue(row, MASTER.upAttributes, ENTRY_CSN)?.toString('latin1') ?? '';
}

/** Returns a former row as it may be shown: without secrets, whose former values are not kept, and large values. */
export function shownRow(descriptions: DescriptionTable, row: Buffer): Buffer {
  const large = largeQualifiers(row);
  const cells = unpackRow(row).filter(({ family, qualifier }) => {
    if (family === MASTER.treeInfo) return !qualifier.equals(Q.large);
    if (family !== MASTER.upAttributes || large?.has(qualifier.toString('latin1'))) return false;
    return !descriptions.intern(qualifier, 0, qualifier.length - INDEX_BYTES).description.type.secret;
  });
  return packSorted(cells);
}
