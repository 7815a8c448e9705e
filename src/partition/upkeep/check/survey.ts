import type { Batch, CellName, Guard, KeyRange, Maybe, PlanStep, Reader } from '../../../store/contract.js';
import { batchesOf, isPromise } from '../../../store/maybe.js';
import { cellValue } from '../../../store/row.js';
import type { StoreError } from '../../../store/store-error.js';
import type { Breach } from '../../model/directory-types.js';
import type { Index, IndexSet } from '../../model/index-set.js';
import { isDamage } from '../../model/store-errors.js';
import { MASTER, MASTER_TABLE, PURGE_TABLE, prefixEnd, Q, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import type { ValueRules } from '../../model/value-rules.js';
import { type SharedRow, sharedGuard } from '../../tree/shared-row.js';
import type { WriteContext } from '../../write/context.js';
import { readAround } from '../around.js';
import { Fingerprint } from './fingerprint.js';
import { IdTable } from './ids.js';

/** A breach and the steps that repair it. Without steps the directory lacks the data for a repair. */
export interface BreachReport {
  readonly breach: Breach;
  readonly fix: readonly PlanStep[] | undefined;
}

/** Receives the stored passwords of an entry, to judge their strength. The survey waits for a promise. */
export type OnPasswords = (id: Buffer, stored: readonly Buffer[]) => Maybe<void>;

export type ReportBreach = (finding: BreachReport) => Maybe<void>;

/** Receives the number of rows read so far, and the table. If it returns a promise, the survey waits for it. */
export type OnProgress = (entriesRead: number, table?: string) => Maybe<void>;

/** Milliseconds for which the check may block the event loop. */
const TURN_MS = 8;

/** Breaches whose repair sets a position or counter. The repair is right only if all entries are readable. */
const TREE_INVARIANTS: ReadonlySet<string> = new Set(['treeRow', 'id', 'name', 'parent', 'cycle', 'count']);

/** Location of damage, as far as it is known. */
interface DamagedPlace {
  readonly table: string;
  readonly key?: Buffer | undefined;
  /** Whether the row itself is readable, and only data that belongs to it, such as a large value, is damaged. */
  readonly isRowIntact?: boolean;
}

type LookAt = (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>;

/** One run of checks over a directory: reads its rows and collects the results. */
export class Survey {
  readonly context: WriteContext;
  /** A snapshot, if the engine has snapshots. */
  readonly reader: Reader;
  readonly indexes: IndexSet;
  readonly values: ValueRules;
  /** Normalized DNs (Latin-1) in the order of the settings. */
  readonly suffixNorms: ReadonlySet<string>;
  readonly ids = new IdTable();
  /** The stored counters by entry number; NaN if the entry has no tree row. */
  readonly oneLevelCounts: number[] = [];
  readonly subLevelCounts: number[] = [];
  /** Ids of entries that are not completely readable. Rows that derive from these entries are not checked. */
  readonly unreadableIds = new Set<string>();
  /** Keys (Latin-1) of tree rows that have an entry's name and belong to another entry. Reported once. */
  readonly foreignTreeKeys = new Set<string>();
  treeRowCount = 0;
  readonly expectedFingerprints = new Map<Index, Fingerprint>();
  breachCount = 0;
  onPasswords: OnPasswords | undefined;
  /** Ids (Latin-1) of entries with damaged master rows. Their positions in the tree are unknown. */
  readonly lostIds = new Set<string>();
  readonly #damagedTables = new Set<string>();
  #hasBrokenOff = false;
  /** The skipped checks, each with the table that was not readable. */
  readonly #skippedChecks = new Map<string, string>();
  /** Table and key of all damage that was reported. */
  readonly #reportedDamage = new Set<string>();
  readonly #report: ReportBreach;
  readonly #onProgress: OnProgress | undefined;
  #rowsRead = 0;
  #turnStartMs = performance.now();

  constructor(context: WriteContext, reader: Reader, shared: SharedRow, report: ReportBreach, onProgress?: OnProgress) {
    this.context = context;
    this.reader = reader;
    this.indexes = shared.indexes;
    this.values = shared.values;
    this.suffixNorms = shared.suffixNormTexts;
    this.#report = report;
    this.#onProgress = onProgress;
    for (const index of this.indexes.list) this.expectedFingerprints.set(index, new Fingerprint());
  }

  async report(invariant: string, where: string, message: string, fix?: readonly PlanStep[]): Promise<void> {
    this.breachCount++;
    const isPostponed = fix && TREE_INVARIANTS.has(invariant) && !this.isFullyReadable(MASTER_TABLE.name);
    const text = isPostponed ? `${message}, once table master can be read whole` : message;
    const breach = { invariant, where, message: text };
    const completion = this.#report({ breach, fix: isPostponed ? undefined : fix });
    if (isPromise(completion)) await completion;
  }

  /** Whether no damage has been found in the table so far. */
  isFullyReadable(table: string): boolean {
    return !this.#hasBrokenOff && !this.#damagedTables.has(table);
  }

  /** Records that a check is skipped, at least in part, because `table` is not fully readable. Reported at the end. */
  noteSkipped(check: string, table: string): void {
    if (!this.#skippedChecks.has(check)) this.#skippedChecks.set(check, table);
  }

  async reportSkipped(): Promise<void> {
    for (const [check, table] of this.#skippedChecks) {
      const reason = this.#damagedTables.has(table)
        ? `rows of table ${table} cannot be read`
        : 'a part of the check broke off';
      await this.report('unchecked', check, `${reason}, so not all of this was checked, and repair leaves it alone`);
    }
  }

  /** Counts rows. At intervals reports progress and lets other work run. */
  async countProgress(rows: number): Promise<void> {
    this.#rowsRead += rows;
    if (performance.now() - this.#turnStartMs < TURN_MS) return;
    await this.#onProgress?.(this.#rowsRead);
    await new Promise((resolve) => setImmediate(resolve));
    this.#turnStartMs = performance.now();
  }

  /**
   * Returns the first steps of every fix. They guard that entry and list of indexes have not changed. `row`: master row
   * of the entry, if it exists.
   */
  guards(id: Buffer, row: Buffer | undefined, isMoved = false): PlanStep[] {
    const guard = sameCell(row, { family: MASTER.treeInfo, qualifier: Q.version });
    return [{ table: MASTER_TABLE.name, key: id, guards: [guard] }, sharedGuard(this, isMoved)];
  }

  /** Runs a group of checks. Damage that ends it is reported, and the caller continues with others. */
  async runPart(name: string, work: (survey: Survey) => Promise<void>): Promise<void> {
    try {
      await work(this);
    } catch (error) {
      await this.reportDamage(error);
      this.#hasBrokenOff = true;
      this.noteSkipped(name, (error as StoreError).table ?? 'of the store');
    }
  }

  /** Reports damage, once per location. Rethrows any other error. */
  async reportDamage(error: unknown, place?: DamagedPlace): Promise<void> {
    if (!isDamage(error)) throw error;
    const table = place?.table ?? error.table;
    const key = place?.key ?? error.key;
    if (table === MASTER_TABLE.name && key) {
      this.unreadableIds.add(key.toString('latin1'));
      if (!place?.isRowIntact) this.lostIds.add(key.toString('latin1'));
    }
    if (table && !place?.isRowIntact) this.#damagedTables.add(table);
    const damageName = `${table} ${key?.toString('latin1') ?? error.message}`;
    if (this.#reportedDamage.has(damageName)) return;
    this.#reportedDamage.add(damageName);
    await this.report('damage', damagedPlace(table, key), `${error.message}; ${remedyFor(table)}`);
  }

  /** Reads whole tables to find damage before anything is repaired. */
  async findDamage(tables: readonly string[]): Promise<void> {
    for (const table of tables) await this.forEachBatch(table, false, async () => undefined);
  }

  /** Visits the rows of a table, or of a range in a table without lists, in key order. Reports damaged rows. */
  async forEachBatch(table: string, keysOnly: boolean, look: LookAt, range: KeyRange = {}): Promise<void> {
    await this.#onProgress?.(this.#rowsRead, table);
    if (table === PURGE_TABLE.name || isIndex(table)) return this.#forEachListBatch(table, keysOnly, look);
    for await (const batch of readAround(this.reader, table, range, keysOnly)) {
      if ('error' in batch) await this.reportDamage(batch.error, { table, key: batch.key });
      else await this.#visitBatch(batch, look);
    }
  }

  /** Visits a table of lists. Continues after a damaged list; other lists in the same batch may be missed. */
  async #forEachListBatch(table: string, keysOnly: boolean, look: LookAt): Promise<void> {
    let from: Buffer | undefined;
    do {
      try {
        const scan = this.reader.scan(table, { from }, { keysOnly });
        for await (const batch of batchesOf(scan)) await this.#visitBatch(batch, look);
        return;
      } catch (error) {
        // Rows of other tables, which `look` reads, may be damaged, too.
        if (!isDamage(error) || error.table !== table) throw error;
        await this.reportDamage(error);
        const { key } = error;
        if (!key || (from && key.compare(from) < 0)) return;
        from = prefixEnd(key);
      }
    } while (from);
  }

  async #visitBatch({ keys, rows }: Pick<Batch, 'keys' | 'rows'>, look: LookAt): Promise<void> {
    await look(keys, rows);
    await this.countProgress(keys.length);
  }

  /** Reads rows. Reports a damaged row and returns undefined for it. */
  async getMany(table: string, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    if (keys.length === 0) return [];
    try {
      const rows = this.reader.getMany(table, keys);
      return isPromise(rows) ? await rows : rows;
    } catch (error) {
      if (!isDamage(error)) throw error;
    }
    const rows: (Buffer | undefined)[] = [];
    for (const key of keys) rows.push(await this.get(table, key));
    return rows;
  }

  /** Reads a row. Reports damage and then returns undefined. */
  async get(table: string, key: Buffer): Promise<Buffer | undefined> {
    try {
      const row = this.reader.get(table, key);
      return isPromise(row) ? await row : row;
    } catch (error) {
      await this.reportDamage(error, { table, key });
      return undefined;
    }
  }

  async count(table: string): Promise<number> {
    let count = 0;
    await this.forEachBatch(table, true, async (keys) => {
      count += keys.length;
    });
    return count;
  }
}

function isIndex(table: string): boolean {
  return table.startsWith('index_');
}

function damagedPlace(table: string | undefined, key: Buffer | undefined): string {
  if (table === MASTER_TABLE.name && key?.length === UUID_BYTES) return uuidText(key);
  return `${table ?? 'store'}${key ? ` ${printable(key)}` : ''}`;
}

/** Returns a remedy for damage in a table. All other tables derive from table master. */
function remedyFor(table: string | undefined): string {
  if (table === MASTER_TABLE.name)
    return 'the entry is lost: restore a backup, or export what can be read and import it';
  if (table !== undefined && isIndex(table))
    return 'no entry is lost: drop the index and add it again, or export and import';
  return 'restore a backup, or export what can be read and import it';
}

/** Returns the guard that a cell is as it was read; `row` is undefined if there was no row. */
export function sameCell(row: Buffer | undefined, { family, qualifier }: CellName): Guard {
  const value = row && cellValue(row, family, qualifier);
  return value ? { op: 'equals', family, qualifier, value } : { op: 'absent', family, qualifier };
}

/** Returns the entryUUID that a key is, for messages, or the key in hex. */
export function placeOf(key: Buffer): string {
  return key.length === UUID_BYTES ? uuidText(key) : `key ${key.toString('hex')}`;
}

/** Returns the name of a cell or a key for messages: at most 80 bytes, with escapes for unprintable ones. */
export function printable(bytes: Buffer): string {
  const text = bytes
    .subarray(0, 80)
    .toString('latin1')
    .replace(/[^\x20-\x7e]/g, (c) => `\\${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return bytes.length > 80 ? `${text}…` : text;
}
