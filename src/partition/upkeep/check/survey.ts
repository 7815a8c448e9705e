import type { Batch, Guard, KeyRange, Maybe, PlanStep, Reader } from '../../../store/contract.js';
import { StoreError } from '../../../store/errors.js';
import { isPromise } from '../../../store/maybe.js';
import { counterBytes } from '../../../store/row.js';
import type { Breach } from '../../model/directory.js';
import type { Index, IndexSet } from '../../model/index-set.js';
import { keyAfter, MASTER, MASTER_TABLE, prefixEnd, Q, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { sharedGuard } from '../../tree/shared.js';
import type { WriteContext } from '../../write/context.js';
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

/** How long the check may hold the event loop, in milliseconds. */
const TURN_MS = 8;

/** One pass over a directory: what it reads, and what it has learnt so far. */
export class Survey {
  readonly context: WriteContext;
  /** One state, where the engine offers it. */
  readonly reader: Reader;
  readonly indexes: IndexSet;
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
  /** Tables in which damage was met. */
  readonly damaged = new Set<string>();
  /** Damage that was told: table and key. */
  readonly #damages = new Set<string>();
  readonly #report: Report;
  readonly #onProgress: ((done: number, table?: string) => void) | undefined;
  #done = 0;
  #turnBegan = performance.now();

  constructor(
    context: WriteContext,
    reader: Reader,
    shared: { readonly indexes: IndexSet; readonly suffixNorms: ReadonlySet<string> },
    report: Report,
    onProgress?: (done: number, table?: string) => void,
  ) {
    this.context = context;
    this.reader = reader;
    this.indexes = shared.indexes;
    this.suffixNorms = shared.suffixNorms;
    this.#report = report;
    this.#onProgress = onProgress;
    for (const index of this.indexes.list) this.expected.set(index, new Fingerprint());
  }

  async report(invariant: string, where: string, message: string, fix?: readonly PlanStep[]): Promise<void> {
    this.breaches++;
    const done = this.#report({ breach: { invariant, where, message }, fix });
    if (isPromise(done)) await done;
  }

  /** After `rows` more rows: tells how far it is and lets others through. */
  async breathe(rows: number): Promise<void> {
    this.#done += rows;
    if (performance.now() - this.#turnBegan < TURN_MS) return;
    this.#onProgress?.(this.#done);
    await new Promise((resolve) => setImmediate(resolve));
    this.#turnBegan = performance.now();
  }

  /** First steps of every fix of an entry: it is still what was looked at, and so are the indexes. */
  guards(id: Buffer, version: Buffer | undefined, moved = false): PlanStep[] {
    const guard: Guard = version
      ? { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value: version }
      : { op: 'absent', family: MASTER.treeInfo, qualifier: Q.version };
    return [{ table: MASTER_TABLE.name, key: id, guards: [guard] }, sharedGuard(this.indexes.bytes, moved)];
  }

  /** Does one part of the work. Damage that ends it is told, and the other parts go on. */
  async part(work: (survey: Survey) => Promise<void>): Promise<void> {
    try {
      await work(this);
    } catch (error) {
      await this.tellDamage(error);
    }
  }

  /** Tells of damage, each once; throws any other error. */
  async tellDamage(error: unknown): Promise<void> {
    if (!(error instanceof StoreError) || (error.code !== 'damaged' && error.code !== 'corrupt')) throw error;
    const { table, key, message } = error;
    if (table === MASTER_TABLE.name && key) this.unreadable.add(key.toString('latin1'));
    const name = `${table} ${key?.toString('latin1') ?? message}`;
    if (this.#damages.has(name)) return;
    this.#damages.add(name);
    if (table) this.damaged.add(table);
    await this.report('damage', damagedPlace(table, key), `${message}; ${remedy(table)}`);
  }

  /** All batches of a table, in key order, but for rows that are damaged. */
  async each(
    table: string,
    keysOnly: boolean,
    look: (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>,
  ): Promise<void> {
    this.#onProgress?.(this.#done, table);
    const ranges: KeyRange[] = [{}];
    for (let range = ranges.pop(); range; range = ranges.pop()) {
      const damage = await this.#eachIn(table, range, keysOnly, look);
      if (!damage) continue;
      const { behind, key } = damage;
      // Rows before the damaged one may have been in its batch.
      const from = isIndex(table) ? prefixEnd(key) : keyAfter(key);
      if (from) ranges.push({ from, to: range.to });
      ranges.push({ from: behind ? keyAfter(behind) : range.from, to: key });
    }
  }

  /** Gives where it met damage: the key of the damaged row, and behind which row it was looking. */
  async #eachIn(
    table: string,
    range: KeyRange,
    keysOnly: boolean,
    look: (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>,
  ): Promise<{ behind: Buffer | undefined; key: Buffer } | undefined> {
    const scan = this.reader.scan(table, range, { keysOnly });
    let behind: Buffer | undefined;
    try {
      for (;;) {
        let batch: Batch | undefined;
        try {
          const next = scan.next();
          batch = isPromise(next) ? await next : next;
        } catch (error) {
          await this.tellDamage(error);
          const { key } = error as StoreError;
          return key && isWithin(key, behind ? keyAfter(behind) : range.from, range.to) ? { behind, key } : undefined;
        }
        if (!batch) return undefined;
        await look(batch.keys, batch.rows);
        behind = batch.keys.at(-1) ?? behind;
        await this.breathe(batch.keys.length);
      }
    } finally {
      scan.close();
    }
  }

  /** Of a row that is damaged, which is told, undefined. */
  async getMany(table: string, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    if (keys.length === 0) return [];
    try {
      const rows = this.reader.getMany(table, keys);
      return isPromise(rows) ? await rows : rows;
    } catch (error) {
      await this.tellDamage(error);
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
      await this.tellDamage(error);
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

function isWithin(key: Buffer, from: Buffer | undefined, to: Buffer | undefined): boolean {
  return (!from || key.compare(from) >= 0) && (!to || key.compare(to) < 0);
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
