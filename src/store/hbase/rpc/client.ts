import type { Increment, KeyRange } from '../../contract.js';
import { cellValue, compareCells } from '../../row.js';
import { guardHolds } from '../../row-edit.js';
import { mayBeDone, StoreError } from '../../store-error.js';
import { CellCursor, putEnd, TableCodec } from './cells.js';
import { type Bounded, Deadlines } from './deadlines.js';
import { RowDispatcher } from './dispatch.js';
import { Lookups, lookupColumns } from './lookup.js';
import { Masters } from './masters.js';
import { conditionsOf, encodeMutation, encodePut } from './mutations.js';
import { GetOperation, MutateOperation, type MutateParts, type RowSink } from './operations.js';
import { varintLength, Writer, writeVarint } from './protobuf.js';
import { type Region, Regions } from './regions.js';
import { checkKey, columnsOf } from './requests.js';
import { Attempts, asFailure, Pauses, storeError } from './retry.js';
import type {
  HBaseScan,
  HBaseScanOptions,
  ReadOptions,
  RegionInfo,
  RowMutation,
  RpcSettings,
  RpcStatistics,
  TableHandle,
} from './rpc-types.js';
import { RegionScan, type ScanContext } from './scanner.js';
import { Servers } from './server.js';

const ALL: ReadOptions = {};

/**
 * A client of one HBase cluster, by its own RPC. Rejects with `StoreError`: `unavailable` after `operationTimeoutMs` or
 * when what was asked may not be repeated (then `applied` is 'unknown'), `noTable`, `conflict` for a family that is not
 * there, `permission`, `limit`, `closed`. Handles and options should be kept and given again: what they encode to is
 * remembered by object.
 */
export class HBaseClient {
  readonly settings: RpcSettings;
  readonly statistics: RpcStatistics = {
    calls: {},
    actions: 0,
    retries: 0,
    connects: 0,
    cellsReceived: 0,
    bytesReceived: 0,
    bytesSent: 0,
  };
  readonly #servers: Servers;
  readonly #regions: Regions;
  readonly #scans: ScanContext;
  readonly #masters: Masters;
  readonly #rows: RowDispatcher;
  readonly #codecs = new WeakMap<TableHandle, TableCodec>();
  readonly #lookups: Lookups;
  readonly #deadlines = new Deadlines();
  readonly #pauses = new Pauses();
  #closed = false;

  constructor(settings: RpcSettings) {
    this.settings = settings;
    this.#servers = new Servers(settings, this.statistics);
    this.#masters = new Masters(settings, this.#servers, this.#pauses);
    this.#regions = new Regions(this.#servers, this.#masters);
    this.#scans = {
      settings,
      servers: this.#servers,
      regions: this.#regions,
      statistics: this.statistics,
      pauses: this.#pauses,
      learn: (failure, region) => this.#rows.learn(failure, region),
    };
    this.#rows = new RowDispatcher(this.#servers, this.#regions, this.statistics);
    this.#lookups = new Lookups(this.#scans, this.#deadlines);
  }

  /** The row, packed; undefined when it has no cell that was asked for. */
  get(table: TableHandle, key: Buffer, options: ReadOptions = ALL): Promise<Buffer | undefined> {
    return new Promise((resolve, reject) => {
      const codec = this.#open(table);
      const fields = codec.encoded(options, getFields);
      checkKey(key);
      const sink = new Rows(
        this.#deadlines,
        new Attempts(this.settings, this.#pauses),
        1,
        ([row]) => resolve(row),
        reject,
      );
      this.#get(codec, key, fields, sink, 0);
    });
  }

  /** In the order of `keys`. */
  getMany(table: TableHandle, keys: readonly Buffer[], options: ReadOptions = ALL): Promise<(Buffer | undefined)[]> {
    return new Promise((resolve, reject) => {
      const codec = this.#open(table);
      const fields = codec.encoded(options, getFields);
      if (keys.length === 0) return resolve([]);
      for (const key of keys) checkKey(key);
      const sink = new Rows(this.#deadlines, new Attempts(this.settings, this.#pauses), keys.length, resolve, reject);
      for (let i = 0; i < keys.length; i++) this.#get(codec, keys[i]!, fields, sink, i);
    });
  }

  scan(table: TableHandle, range: KeyRange, options: HBaseScanOptions = ALL): HBaseScan {
    return new RegionScan(this.#scans, this.#open(table), range, options);
  }

  /**
   * The first `limit` keys of the range, in order. Look-ups of many callers go out as one scan: for rows of one small
   * cell, as those of indexes, whose cells travel with the keys. `options`: what makes a row count; a filter is not
   * taken.
   */
  lookup(
    table: TableHandle,
    range: KeyRange,
    limit: number,
    options: Omit<ReadOptions, 'filter'> = ALL,
  ): Promise<Buffer[]> {
    const codec = this.#open(table);
    return this.#lookups.find(codec, codec.encoded(options, lookupColumns), range, limit);
  }

  /** False when a guard does not hold: nothing was done. */
  async mutate(table: TableHandle, mutation: RowMutation): Promise<boolean> {
    const codec = this.#open(table);
    const { messages, cells } = encodeMutation(codec, mutation);
    const guards = mutation.guards ?? [];
    if (messages.length === 0) return guards.length === 0 || this.#guardsHold(table, mutation);
    const conditions = guards.length === 0 ? [] : conditionsOf(codec, mutation.key, guards);
    return this.#mutate(codec, mutation.key, {
      bodies: messages.map(mutationField),
      cells,
      conditions: conditions.map((condition) => new Writer().bytes(4, condition).finish()),
      repeatable: mutation.repeatable === true,
      doubtIsFalse: mutation.doubtIsFalse === true,
    });
  }

  /**
   * Puts and deletions, each row atomic, in any order; repeated until they are known to be done. Ends when all have;
   * then rejects if one failed. No guards and no `add`; each key once; at most `maxQueuedBytes` in all.
   */
  async putMany(table: TableHandle, rows: readonly RowMutation[]): Promise<void> {
    const codec = this.#open(table);
    // All are checked before the first is sent.
    const parts = rows.map((mutation) => {
      if (mutation.guards?.length || mutation.add?.length) throw new TypeError('putMany takes no guards and no add');
      const { messages, cells } = encodeMutation(codec, mutation);
      return { bodies: messages.map(mutationField), cells, conditions: [], repeatable: true };
    });
    await this.#putAll(
      codec,
      rows.map(({ key }) => key),
      parts,
    );
  }

  /** As `putMany`, of packed rows: row `i` under `keys[i]`, no cell twice, families in any order. */
  async putRows(
    table: TableHandle,
    keys: readonly Buffer[],
    rows: readonly Buffer[],
    timestamp: bigint,
  ): Promise<void> {
    const codec = this.#open(table);
    const end = putEnd(timestamp);
    const parts = rows.map((row, i) => {
      const { message, cells } = encodePut(codec, keys[i]!, row, end);
      const bodies = cells.length > 0 ? [mutationField(message)] : [];
      return { bodies, cells: [cells], conditions: [], repeatable: true };
    });
    await this.#putAll(codec, keys, parts);
  }

  /** Ends when all have; then rejects if one failed. */
  #putAll(codec: TableCodec, keys: readonly Buffer[], parts: readonly MutateParts[]): Promise<void> {
    return new Promise((resolve, reject) => {
      let left = 1;
      let failed: { readonly error: unknown } | undefined;
      const done = (): void => {
        if (--left > 0) return;
        if (failed) reject(failed.error);
        else resolve();
      };
      const fail = (error: unknown): void => {
        // What may have been done is the more to be known.
        if (!failed || mayBeDone(error)) failed = { error };
        done();
      };
      for (const [i, part] of parts.entries()) {
        if (part.bodies.length === 0) continue;
        left++;
        this.#change(codec, keys[i]!, part, done, fail);
      }
      done();
    });
  }

  /**
   * Adds to counters of one row, all or none; gives their new values in order. Never repeated when it may have been
   * done.
   */
  async increment(table: TableHandle, key: Buffer, add: readonly Increment[]): Promise<bigint[]> {
    const codec = this.#open(table);
    const { messages, cells } = encodeMutation(codec, { key, add });
    if (messages.length === 0) return [];
    const attempts = new Attempts(this.settings, this.#pauses);
    for (;;) {
      let region: Region | undefined;
      try {
        region = await this.#regions.locate(codec.name, key, attempts);
        const request = new Writer().bytes(1, region.specifier).bytes(2, messages[0]).finish();
        const answer = await this.#servers.get(region.server).call('Mutate', request, cells, attempts.expires);
        return counterValues(codec, new CellCursor(answer.cells), add);
      } catch (e) {
        const failure = asFailure(e);
        if (region) this.#rows.learn(failure, region);
        if (!failure.traits.undone) throw storeError(failure, 'unknown');
        await attempts.pause(failure, 'no');
      }
    }
  }

  /** In key order, as hbase:meta has them now. `noTable` when there are none. */
  async regions(table: TableHandle): Promise<RegionInfo[]> {
    const codec = this.#open(table);
    const attempts = new Attempts(this.settings, this.#pauses);
    for (;;) {
      try {
        const regions = await this.#regions.all(codec.name, attempts);
        return regions.map(({ start, end, server }) => ({ start, end, server }));
      } catch (e) {
        await attempts.pause(asFailure(e), 'no');
      }
    }
  }

  /** Asks the active master (service MasterService) and gives the answer's message. It may be repeated. */
  callMaster(method: string, request: Buffer): Promise<Buffer> {
    return this.#masters.call(method, request);
  }

  /** Operations under way reject. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#servers.close();
    this.#pauses.end();
  }

  #open(table: TableHandle): TableCodec {
    if (this.#closed) throw new StoreError('closed', 'the HBase client was closed');
    let codec = this.#codecs.get(table);
    if (!codec) {
      codec = new TableCodec(table);
      this.#codecs.set(table, codec);
    }
    return codec;
  }

  #get(codec: TableCodec, key: Buffer, fields: Buffer, sink: Rows, index: number): void {
    const body = getField(key, fields);
    this.#rows.dispatch(new GetOperation(this.#rows, codec, key, sink.attempts, body, sink, index));
  }

  #mutate(codec: TableCodec, key: Buffer, parts: MutateParts): Promise<boolean> {
    return new Promise((resolve, reject) => this.#change(codec, key, parts, resolve, reject));
  }

  #change(
    codec: TableCodec,
    key: Buffer,
    parts: MutateParts,
    resolve: (done: boolean) => void,
    reject: (error: unknown) => void,
  ): void {
    const ended = (settle: () => void): void => {
      this.#deadlines.delete(operation);
      settle();
    };
    const operation: MutateOperation = new MutateOperation(
      this.#rows,
      codec,
      key,
      new Attempts(this.settings, this.#pauses),
      parts,
      (done) => ended(() => resolve(done)),
      (error) => ended(() => reject(error)),
    );
    this.#deadlines.add(operation);
    this.#rows.dispatch(operation);
  }

  async #guardsHold(table: TableHandle, { key, guards = [] }: RowMutation): Promise<boolean> {
    const row = await this.get(table, key, { columns: guards });
    return guards.every((guard) => guardHolds(guard, row && cellValue(row, guard.family, guard.qualifier)));
  }
}

/** The rows that one caller asked for, until all are there. */
class Rows implements RowSink, Bounded {
  readonly attempts: Attempts;
  readonly #deadlines: Deadlines;
  readonly #rows: (Buffer | undefined)[];
  readonly #resolve: (rows: (Buffer | undefined)[]) => void;
  readonly #reject: (error: unknown) => void;
  #missing: number;

  constructor(
    deadlines: Deadlines,
    attempts: Attempts,
    count: number,
    resolve: (rows: (Buffer | undefined)[]) => void,
    reject: (error: unknown) => void,
  ) {
    this.attempts = attempts;
    this.#deadlines = deadlines;
    this.#rows = new Array(count);
    this.#missing = count;
    this.#resolve = resolve;
    this.#reject = reject;
    deadlines.add(this);
  }

  get expires(): number {
    return this.attempts.expires;
  }

  row(index: number, row: Buffer | undefined): void {
    this.#rows[index] = row;
    if (--this.#missing > 0) return;
    this.#deadlines.delete(this);
    this.#resolve(this.#rows);
  }

  reject(error: unknown): void {
    if (this.attempts.over) return;
    this.#deadlines.delete(this);
    // The others are not sent any more.
    this.attempts.over = true;
    this.#reject(error);
  }

  expire(): void {
    this.#reject(this.attempts.expire('no'));
  }
}

/** What a Get has beside its row (1): column 2, filter 4. */
function getFields(codec: TableCodec, options: ReadOptions): Buffer {
  const out = new Writer();
  for (const column of columnsOf(codec, options)) out.bytes(2, column);
  return out.bytes(4, options.filter).finish();
}

/** Action: get 3 { row 1, … } */
function getField(key: Buffer, fields: Buffer): Buffer {
  const length = 1 + varintLength(key.length) + key.length + fields.length;
  const out = Buffer.allocUnsafe(1 + varintLength(length) + length);
  out[0] = 0x1a;
  let at = writeVarint(out, 1, length);
  out[at++] = 0x0a;
  at = writeVarint(out, at, key.length);
  out.set(key, at);
  out.set(fields, at + key.length);
  return out;
}

/** Action: mutation 2 */
function mutationField(message: Buffer): Buffer {
  return new Writer().bytes(2, message).finish();
}

function counterValues(codec: TableCodec, cells: CellCursor, add: readonly Increment[]): bigint[] {
  const found: { family: number; qualifier: Buffer; value: bigint }[] = [];
  for (; !cells.done; cells.leave()) {
    cells.enter();
    if (cells.valueLength !== 8) throw new StoreError('corrupt', `counter of ${cells.valueLength} bytes`);
    found.push({ family: codec.familyOf(cells), qualifier: cells.qualifier(), value: cells.value().readBigInt64BE() });
  }
  return add.map((name) => {
    const cell = found.find((other) => compareCells(other, name) === 0);
    if (!cell) throw new StoreError('corrupt', 'an increment was answered without its counter');
    return cell.value;
  });
}
