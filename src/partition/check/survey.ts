import type { Guard, Maybe, PlanStep, Reader } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { counterBytes } from '../../store/row.js';
import type { Index, IndexSet } from '../indexes.js';
import { sharedGuard } from '../shared.js';
import { MASTER, MASTER_TABLE, Q } from '../tables.js';
import type { Breach } from '../types.js';
import type { WriteContext } from '../write.js';
import { Fingerprint } from './fingerprint.js';
import { IdTable } from './ids.js';

/** A breach and the plan that mends it; without one, nothing that the directory holds can. */
export interface Finding {
  readonly breach: Breach;
  readonly fix: readonly PlanStep[] | undefined;
}

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
  readonly #report: Report;
  readonly #onProgress: ((done: number) => void) | undefined;
  #done = 0;
  #turnBegan = performance.now();

  constructor(
    context: WriteContext,
    reader: Reader,
    shared: { readonly indexes: IndexSet; readonly suffixNorms: ReadonlySet<string> },
    report: Report,
    onProgress?: (done: number) => void,
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

  /** All batches of a table, in key order. */
  async each(
    table: string,
    keysOnly: boolean,
    look: (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]) => Promise<void>,
  ): Promise<void> {
    const scan = this.reader.scan(table, {}, { keysOnly });
    try {
      for (;;) {
        const next = scan.next();
        const batch = isPromise(next) ? await next : next;
        if (!batch) return;
        await look(batch.keys, batch.rows);
        await this.breathe(batch.keys.length);
      }
    } finally {
      scan.close();
    }
  }

  async getMany(table: string, keys: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    if (keys.length === 0) return [];
    const rows = this.reader.getMany(table, keys);
    return isPromise(rows) ? await rows : rows;
  }

  async get(table: string, key: Buffer): Promise<Buffer | undefined> {
    const row = this.reader.get(table, key);
    return isPromise(row) ? await row : row;
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
