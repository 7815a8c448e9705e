import { CHANGES_TABLE, DELETED_TABLE, MASTER_TABLE, META_TABLE } from '../../partition/model/tables.js';
import type { Reader, Store, TableSpec } from '../../store/contract.js';
import { EMPTY } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { CliError } from '../exit.js';
import { type CopyBatch, copyBatches } from './batches.js';
import { largeChunks } from './large.js';
import { COPY_TABLE, CopyState, markOf } from './state.js';

const NOTHING = { steps: [], decisive: 0 } as const;

export interface CopyProgress {
  /** A table is begun. */
  table(name: string): void;
  /** So many rows more are there. */
  rows(count: number): void;
}

/** Copies a directory, table by table, from a store to an empty one or to one that a copy was begun in. */
export class Copier {
  readonly #source: Store;
  readonly #target: Store;
  readonly #progress: CopyProgress;

  constructor(source: Store, target: Store, progress: CopyProgress) {
    this.#source = source;
    this.#target = target;
    this.#progress = progress;
  }

  async run(): Promise<void> {
    const { snapshot } = this.#source.supports;
    const reader = snapshot ? this.#source.snapshot() : this.#source;
    try {
      const mark = await markOf(reader);
      const specs = (await this.#source.tables()).filter(({ name }) => name !== COPY_TABLE.name);
      const state = await CopyState.open(this.#target, mark);
      const isMeta = ({ name }: TableSpec): boolean => name === META_TABLE.name;
      for (const spec of specs.filter((one) => !isMeta(one))) await this.#copyTable(reader, spec, state);
      // Whoever opens the target looks for a directory in `meta`: it comes last, and only when the rest belongs
      // together.
      if (!snapshot && !(await markOf(this.#source)).equals(mark)) {
        throw new CliError(
          'the source was changed while it was copied; stop what writes to it, and copy with --restart',
        );
      }
      for (const spec of specs.filter(isMeta)) await this.#copyTable(reader, spec, state);
      await state.end();
    } finally {
      if (reader !== this.#source) (reader as ReturnType<Store['snapshot']>).close();
    }
  }

  async #copyTable(reader: Reader, spec: TableSpec, state: CopyState): Promise<void> {
    const before = await state.of(spec.name);
    if (before?.done) return;
    this.#progress.table(spec.name);
    const append = spec.name === CHANGES_TABLE.name;
    // Appended rows get new numbers: those of a copy that broke off would stand there twice.
    if (append && before) await this.#target.dropTable(spec.name);
    await this.#target.createTable(spec);
    if (append) await state.copied(spec.name, EMPTY);
    for await (const batch of copyBatches(reader, spec, append ? undefined : before?.at)) {
      await this.#load(spec, batch, append);
      await this.#copyLarge(reader, spec, batch);
      await state.copied(spec.name, batch.last);
      this.#progress.rows(batch.count);
    }
    await state.done(spec.name);
  }

  async #load(spec: TableSpec, { rows }: CopyBatch, append: boolean): Promise<void> {
    const load = { table: spec.name, rows };
    if (append) return this.#target.ingest([{ ...load, append }], NOTHING);
    if (spec.suffixBytes !== undefined) return this.#target.ingest([load], NOTHING);
    try {
      await this.#target.ingest([{ ...load, absent: true }], NOTHING);
    } catch (error) {
      // Some are there from a copy that broke off: they are written over.
      if (!(error instanceof StoreError) || error.code !== 'guard') throw error;
      await this.#target.ingest([load], NOTHING);
    }
  }

  async #copyLarge(reader: Reader, spec: TableSpec, { rows }: CopyBatch): Promise<void> {
    if (spec.name !== MASTER_TABLE.name && spec.name !== DELETED_TABLE.name) return;
    for (const { key, row } of rows) {
      for await (const put of largeChunks(reader, spec.name, key, row)) {
        await this.#target.commit({ steps: [{ table: spec.name, key, put }], decisive: 0 });
      }
    }
  }
}
