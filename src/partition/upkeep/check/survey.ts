import type { Batch, Guard, KeyRange, Maybe, PlanStep, Reader } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { counterBytes } from '../../../store/row.js';
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

/** A breach and the plan that mends it; without one, nothing that the directory holds can. */
export interface Finding {
  readonly breach: Breach;
  readonly fix: readonly PlanStep[] | undefined;
}

/** Told of the passwords that an entry has, as stored: what they are worth is for others to judge. */
export type OnPasswords = (where: string, stored: readonly Buffer[]) => void;

export type Report = (finding: Finding) => Maybe<void>;

/** Told how far a pass is, in rows, and of which table; a pass waits for what it gives back. */
export type OnProgress = (done: number, table?: string) => Maybe<void>;

/** How long the check may hold the event loop, in milliseconds. */
const TURN_MS = 8;

/** Breaches whose mending gives an entry a place or a counter: right only when all entries are known. */
const OF_THE_TREE: ReadonlySet<string> = new Set(['treeRow', 'id', 'name', 'parent', 'cycle', 'count']);

/** Where a read met damage, as far as the reader knows. */
interface Met {
  readonly table: string;
  readonly key?: Buffer | undefined;
  /** Only what belongs to the row was damaged, such as a large value: the row itself was read. */
  readonly apart?: boolean;
}

/** One pass over a directory: what it reads, and what it has learnt so far. */
export class Survey {
  readonly context: WriteContext;
  /** One state, where the engine offers it. */
  readonly reader: Reader;
  readonly indexes: IndexSet;
  readonly values: ValueRules;
  /** Normalized DNs as latin-1 text, in the order of the settings. */
  readonly suffixNorms: ReadonlySet<string>;
  readonly ids = new IdTable();
  /** By entry number: what the tree row's counters say; NaN where the entry has no tree row of its own. */
  readonly oneLevel: number[] = [];
  readonly subLevel: number[] = [];
  /** Entries whose rows cannot be read whole: what they imply is not known, so what belongs to them is left alone. */
  readonly unreadable = new Set<string>();
  /** Keys, latin-1, of tree rows at the place of an entry that are not its own, so that they are told once. */
  readonly foreign = new Set<string>();
  /** Tree rows that belong to an entry. */
  treeRows = 0;
  /** Index rows that entries imply. */
  readonly expected = new Map<Index, Fingerprint>();
  breaches = 0;
  onPasswords: OnPasswords | undefined;
  /** Entries whose rows are damaged, as latin-1: even where they stand is not known from them. */
  readonly lost = new Set<string>();
  /** Tables of which some row could not be read. */
  readonly #damaged = new Set<string>();
  /** A part of the work broke off. */
  #broken = false;
  /** Checks that were left out, and the tables that could not be read for them. */
  readonly #leftOut = new Map<string, string>();
  /** Damage that was told: table and key. */
  readonly #damages = new Set<string>();
  readonly #report: Report;
  readonly #onProgress: OnProgress | undefined;
  #done = 0;
  #turnBegan = performance.now();

  constructor(context: WriteContext, reader: Reader, shared: SharedRow, report: Report, onProgress?: OnProgress) {
    this.context = context;
    this.reader = reader;
    this.indexes = shared.indexes;
    this.values = shared.values;
    this.suffixNorms = shared.suffixNorms;
    this.#report = report;
    this.#onProgress = onProgress;
    for (const index of this.indexes.list) this.expected.set(index, new Fingerprint());
  }

  async report(invariant: string, where: string, message: string, fix?: readonly PlanStep[]): Promise<void> {
    this.breaches++;
    const held = fix && OF_THE_TREE.has(invariant) && !this.isWhole(MASTER_TABLE.name);
    const breach = { invariant, where, message: held ? `${message}, once table master can be read whole` : message };
    const done = this.#report({ breach, fix: held ? undefined : fix });
    if (isPromise(done)) await done;
  }

  /** Whether every row of the table could be read so far. */
  isWhole(table: string): boolean {
    return !this.#broken && !this.#damaged.has(table);
  }

  /** A check is left out, or a part of it, as not all of `table` could be read. Told once, at the end. */
  leaveOut(check: string, table: string): void {
    if (!this.#leftOut.has(check)) this.#leftOut.set(check, table);
  }

  async tellLeftOut(): Promise<void> {
    for (const [check, table] of this.#leftOut) {
      const why = this.#damaged.has(table) ? `rows of table ${table} cannot be read` : 'a part of the check broke off';
      await this.report('unchecked', check, `${why}, so not all of this was checked, and repair leaves it alone`);
    }
  }

  /** After `rows` more rows: tells how far it is and lets others through. */
  async breathe(rows: number): Promise<void> {
    this.#done += rows;
    if (performance.now() - this.#turnBegan < TURN_MS) return;
    await this.#onProgress?.(this.#done);
    await new Promise((resolve) => setImmediate(resolve));
    this.#turnBegan = performance.now();
  }

  /** First steps of every fix of an entry: it is still what was looked at, and so are the indexes. */
  guards(id: Buffer, version: Buffer | undefined, moved = false): PlanStep[] {
    const guard: Guard = version
      ? { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value: version }
      : { op: 'absent', family: MASTER.treeInfo, qualifier: Q.version };
    return [{ table: MASTER_TABLE.name, key: id, guards: [guard] }, sharedGuard(this, moved)];
  }

  /** Does one part of the work. Damage that ends it is told, and the other parts go on. */
  async part(name: string, work: (survey: Survey) => Promise<void>): Promise<void> {
    try {
      await work(this);
    } catch (error) {
      await this.tellDamage(error);
      this.#broken = true;
      this.leaveOut(name, (error as StoreError).table ?? 'of the store');
    }
  }

  /** Tells of damage, each once; throws any other error. */
  async tellDamage(error: unknown, met?: Met): Promise<void> {
    if (!isDamage(error)) throw error;
    const table = met?.table ?? error.table;
    const key = met?.key ?? error.key;
    if (table === MASTER_TABLE.name && key) {
      this.unreadable.add(key.toString('latin1'));
      if (!met?.apart) this.lost.add(key.toString('latin1'));
    }
    if (table && !met?.apart) this.#damaged.add(table);
    const name = `${table} ${key?.toString('latin1') ?? error.message}`;
    if (this.#damages.has(name)) return;
    this.#damages.add(name);
    await this.report('damage', damagedPlace(table, key), `${error.message}; ${remedy(table)}`);
  }

  /** Reads tables for nothing but their damage, so that it is known before anything is mended. */
  async findDamage(tables: readonly string[]): Promise<void> {
    for (const table of tables) await this.each(table, false, async () => undefined);
  }

  /** All batches of a table, or of a range of one without lists, in key order; damaged rows are told, not given. */
  async each(
    table: string,
    keysOnly: boolean,
    look: (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>,
    range: KeyRange = {},
  ): Promise<void> {
    await this.#onProgress?.(this.#done, table);
    if (this.#isListed(table)) return this.#eachListed(table, keysOnly, look);
    for await (const part of readAround(this.reader, table, range, keysOnly)) {
      if ('error' in part) await this.tellDamage(part.error, { table, key: part.key });
      else await this.#take(part, look);
    }
  }

  #isListed(table: string): boolean {
    return table === PURGE_TABLE.name || isIndex(table);
  }

  /** Of a table of lists: behind a damaged one it goes on, but others of its batch may be lost with it. */
  async #eachListed(
    table: string,
    keysOnly: boolean,
    look: (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>,
  ): Promise<void> {
    let from: Buffer | undefined;
    for (;;) {
      const scan = this.reader.scan(table, { from }, { keysOnly });
      try {
        for (;;) {
          let batch: Batch | undefined;
          try {
            const next = scan.next();
            batch = isPromise(next) ? await next : next;
          } catch (error) {
            await this.tellDamage(error, { table });
            const { key } = error as StoreError;
            if (!key || (from && key.compare(from) < 0)) return;
            from = prefixEnd(key);
            break;
          }
          if (!batch) return;
          await this.#take(batch, look);
        }
      } finally {
        scan.close();
      }
      if (!from) return;
    }
  }

  async #take(
    { keys, rows }: Pick<Batch, 'keys' | 'rows'>,
    look: (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>,
  ): Promise<void> {
    await look(keys, rows);
    await this.breathe(keys.length);
  }

  /** Of a row that is damaged, which is told, undefined. */
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

  /** Of a row that is damaged, which is told, undefined. */
  async get(table: string, key: Buffer): Promise<Buffer | undefined> {
    try {
      const row = this.reader.get(table, key);
      return isPromise(row) ? await row : row;
    } catch (error) {
      await this.tellDamage(error, { table, key });
      return undefined;
    }
  }

  /** Number of rows, counted without holding the event loop. */
  async count(table: string): Promise<number> {
    let count = 0;
    await this.each(table, true, async (keys) => {
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
  return `${table ?? 'store'}${key ? ` ${shown(key)}` : ''}`;
}

/** What helps: entries are the source of all else. */
function remedy(table: string | undefined): string {
  if (table === MASTER_TABLE.name)
    return 'the entry is lost: restore a backup, or export what can be read and import it';
  if (table !== undefined && isIndex(table))
    return 'no entry is lost: drop the index and add it again, or export and import';
  return 'restore a backup, or export what can be read and import it';
}

export function nextVersion(version: Buffer | undefined): Buffer {
  return version ? counterBytes(version.readBigInt64BE() + 1n) : counterBytes(1n);
}

/** A cell name or key for messages: printable characters as they are, at most 80. */
export function shown(bytes: Buffer): string {
  const text = bytes
    .subarray(0, 80)
    .toString('latin1')
    .replace(/[^\x20-\x7e]/g, (c) => `\\${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return bytes.length > 80 ? `${text}…` : text;
}
