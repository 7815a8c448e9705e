import { storedChunks } from '../../partition/model/large.js';
import { CHANGES_TABLE, DELETED_TABLE, MASTER_TABLE, META_TABLE } from '../../partition/model/tables.js';
import type { Cell, Reader, Store, TableSpec } from '../../store/contract.js';
import { EMPTY } from '../../store/row.js';
import { type RowBatch, readRowBatches } from '../../store/row-batches.js';
import { StoreError } from '../../store/store-error.js';
import { CliError } from '../exit.js';
import { COPY_TABLE, CopyState, hashSource } from './state.js';

const NO_STEPS = { steps: [], decisive: 0 } as const;

export interface CopyProgress {
  beginTable(name: string): void;
  /** `count` more rows are copied. */
  addRows(count: number): void;
}

/** Copies a directory table by table to an empty store, or resumes an unfinished copy. */
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
      const sourceHash = await hashSource(reader);
      const specs = (await this.#source.tables()).filter(({ name }) => name !== COPY_TABLE.name);
      const state = await CopyState.open(this.#target, sourceHash);
      const isMeta = ({ name }: TableSpec): boolean => name === META_TABLE.name;
      for (const spec of specs.filter((one) => !isMeta(one))) await this.#copyTable(reader, spec, state);
      // Table `meta` makes the target a directory. It comes last, and only when the other tables are consistent.
      if (!snapshot && !(await hashSource(this.#source)).equals(sourceHash)) {
        throw new CliError(
          'the source was changed while it was copied; stop what writes to it, and copy with --restart',
        );
      }
      for (const spec of specs.filter(isMeta)) await this.#copyTable(reader, spec, state);
      await state.recordComplete();
    } finally {
      if (reader !== this.#source) (reader as ReturnType<Store['snapshot']>).close();
    }
  }

  async #copyTable(reader: Reader, spec: TableSpec, state: CopyState): Promise<void> {
    const tableState = await state.tableState(spec.name);
    if (tableState?.isDone) return;
    this.#progress.beginTable(spec.name);
    const isAppended = spec.name === CHANGES_TABLE.name;
    // Appended rows get new numbers, so rows of an interrupted copy would be duplicated.
    if (isAppended && tableState) await this.#target.dropTable(spec.name);
    await this.#target.createTable(spec);
    if (isAppended) await state.recordLastKey(spec.name, EMPTY);
    for await (const batch of readRowBatches(reader, spec, isAppended ? undefined : tableState?.lastKey)) {
      await this.#loadRows(spec, batch, isAppended);
      await this.#copyLargeValues(reader, spec, batch);
      await state.recordLastKey(spec.name, batch.lastKey);
      this.#progress.addRows(batch.rowCount);
    }
    await state.recordDone(spec.name);
  }

  async #loadRows(spec: TableSpec, { rows }: RowBatch, isAppended: boolean): Promise<void> {
    const load = { table: spec.name, rows };
    if (isAppended) return this.#target.ingest([{ ...load, append: isAppended }], NO_STEPS);
    if (spec.suffixBytes !== undefined) return this.#target.ingest([load], NO_STEPS);
    try {
      await this.#target.ingest([{ ...load, absent: true }], NO_STEPS);
    } catch (error) {
      // An interrupted copy has written some of the rows already: overwrite them.
      if (!(error instanceof StoreError) || error.code !== 'guard') throw error;
      await this.#target.ingest([load], NO_STEPS);
    }
  }

  async #copyLargeValues(reader: Reader, spec: TableSpec, { rows }: RowBatch): Promise<void> {
    if (spec.name !== MASTER_TABLE.name && spec.name !== DELETED_TABLE.name) return;
    for (const { key, row } of rows) {
      for await (const chunks of readLargeChunks(reader, spec.name, key, row)) {
        await this.#target.commit({ steps: [{ table: spec.name, key, put: chunks }], decisive: 0 });
      }
    }
  }
}

/** Chunks written with one commit: 4 MiB. */
const CHUNKS_PER_COMMIT = 32;

/** Yields the chunks of the large values of a row of `master` or `deleted`, a few at a time. */
async function* readLargeChunks(
  reader: Reader,
  table: string,
  key: Buffer,
  row: Buffer,
): AsyncGenerator<readonly Cell[]> {
  let cells: Cell[] = [];
  for await (const cell of storedChunks(reader, table, key, row)) {
    cells.push(cell);
    if (cells.length < CHUNKS_PER_COMMIT) continue;
    yield cells;
    cells = [];
  }
  if (cells.length > 0) yield cells;
}
