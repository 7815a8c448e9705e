import type { Increment, KeyRange } from '../../contract.js';
import { cellValue, compareCells } from '../../row.js';
import { guardHolds } from '../../row-edit.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import { CellCursor, putKeyEnd, TableCodec } from './cells.js';
import { RowDispatcher } from './dispatch.js';
import { encodeColumns, Lookups } from './lookup.js';
import { Masters } from './masters.js';
import { checkKey, encodeColumnList, encodeConditions, encodeMutation, encodePut } from './mutations.js';
import { type EncodedOperation, GetOperation, MutateOperation, type RowSink } from './operations.js';
import { MessageWriter, varintLength, writeVarint } from './protobuf.js';
import { type Region, Regions } from './regions.js';
import { Attempts, Deadlines, type Expirable, failureOrThrow, Pauses, storeError } from './retry.js';
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

const ALL_CELLS: ReadOptions = {};

/**
 * A client of an HBase cluster that uses HBase's own RPC protocol. Methods reject with `StoreError`: `unavailable`
 * after `operationTimeoutMs`, or when a request of unknown outcome must not be repeated (then `applied` is 'unknown'),
 * `noTable`, `conflict` for a missing family, `permission`, `limit`, `closed`. Callers should reuse handles and
 * options, because their encoded forms are cached by object.
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
  readonly #context: ScanContext;
  readonly #masters: Masters;
  readonly #dispatcher: RowDispatcher;
  readonly #codecs = new WeakMap<TableHandle, TableCodec>();
  readonly #lookups: Lookups;
  readonly #deadlines = new Deadlines();
  readonly #pauses = new Pauses();
  #isClosed = false;

  constructor(settings: RpcSettings) {
    this.settings = settings;
    this.#servers = new Servers(settings, this.statistics);
    this.#masters = new Masters(settings, this.#servers, this.#pauses);
    this.#regions = new Regions(this.#servers, this.#masters);
    this.#context = {
      settings,
      servers: this.#servers,
      regions: this.#regions,
      statistics: this.statistics,
      pauses: this.#pauses,
      noteFailure: (failure, region) => this.#dispatcher.noteFailure(failure, region),
    };
    this.#dispatcher = new RowDispatcher(this.#servers, this.#regions, this.statistics);
    this.#lookups = new Lookups(this.#context, this.#deadlines);
  }

  /** Returns the packed row, or undefined when the row has none of the requested cells. */
  get(table: TableHandle, key: Buffer, options: ReadOptions = ALL_CELLS): Promise<Buffer | undefined> {
    return new Promise((resolve, reject) => {
      const codec = this.#codecFor(table);
      const fields = codec.encodeOnce(options, encodeGetOptions);
      checkKey(key);
      const sink = new RowCollector(this.#deadlines, this.#newAttempts(), 1, ([row]) => resolve(row), reject);
      this.#dispatchGet(codec, key, fields, sink, 0);
    });
  }

  /** Returns the rows in the order of `keys`. */
  getMany(
    table: TableHandle,
    keys: readonly Buffer[],
    options: ReadOptions = ALL_CELLS,
  ): Promise<(Buffer | undefined)[]> {
    return new Promise((resolve, reject) => {
      const codec = this.#codecFor(table);
      const fields = codec.encodeOnce(options, encodeGetOptions);
      if (keys.length === 0) return resolve([]);
      for (const key of keys) checkKey(key);
      const sink = new RowCollector(this.#deadlines, this.#newAttempts(), keys.length, resolve, reject);
      for (let i = 0; i < keys.length; i++) this.#dispatchGet(codec, keys[i]!, fields, sink, i);
    });
  }

  scan(table: TableHandle, range: KeyRange, options: HBaseScanOptions = ALL_CELLS): HBaseScan {
    return new RegionScan(this.#context, this.#codecFor(table), range, options);
  }

  /**
   * Returns the first `limit` keys of the range, in order. Look-ups of many callers are combined into a scan. Meant for
   * rows with a single small cell, as in index tables, because cells are sent along with the keys. `options` select the
   * cells that a row must have. Filters are not supported.
   */
  lookup(
    table: TableHandle,
    range: KeyRange,
    limit: number,
    options: Omit<ReadOptions, 'filter'> = ALL_CELLS,
  ): Promise<Buffer[]> {
    const codec = this.#codecFor(table);
    return this.#lookups.find(codec, codec.encodeOnce(options, encodeColumns), range, limit);
  }

  /** Returns false when a guard does not hold. Nothing was changed then. */
  async mutate(table: TableHandle, mutation: RowMutation): Promise<boolean> {
    const codec = this.#codecFor(table);
    const { messages, cells } = encodeMutation(codec, mutation);
    const guards = mutation.guards ?? [];
    if (messages.length === 0) return guards.length === 0 || this.#guardsHold(table, mutation);
    const conditions = guards.length === 0 ? [] : encodeConditions(codec, mutation.key, guards);
    const operation = {
      bodies: messages.map(encodeMutationField),
      cells,
      conditions: conditions.map((condition) => new MessageWriter().bytes(4, condition).finish()),
      isRepeatable: mutation.isRepeatable === true,
      isFalseWhenUnknown: mutation.isFalseWhenUnknown === true,
    };
    return new Promise((resolve, reject) => this.#dispatchMutation(codec, mutation.key, operation, resolve, reject));
  }

  /**
   * Executes puts and deletes in any order, each row atomically, and repeats them until their outcome is known. Settles
   * when all of them have ended, and rejects if any failed. Guards and `add` are not allowed. Each key may occur once,
   * and the total size is at most `maxQueuedBytes`.
   */
  async putMany(table: TableHandle, rows: readonly RowMutation[]): Promise<void> {
    const codec = this.#codecFor(table);
    // All mutations are checked before the first is sent.
    const operations = rows.map((mutation) => {
      if (mutation.guards?.length || mutation.add?.length) throw new TypeError('putMany takes no guards and no add');
      const { messages, cells } = encodeMutation(codec, mutation);
      return { bodies: messages.map(encodeMutationField), cells, conditions: [], isRepeatable: true };
    });
    await this.#putAll(
      codec,
      rows.map(({ key }) => key),
      operations,
    );
  }

  /** As `putMany`, with packed rows: row `i` is put under `keys[i]`, families in any order, no cell twice. */
  async putRows(
    table: TableHandle,
    keys: readonly Buffer[],
    rows: readonly Buffer[],
    timestamp: bigint,
  ): Promise<void> {
    const codec = this.#codecFor(table);
    const keyEnd = putKeyEnd(timestamp);
    const operations = rows.map((row, i) => {
      const { message, cells } = encodePut(codec, keys[i]!, row, keyEnd);
      const bodies = cells.length > 0 ? [encodeMutationField(message)] : [];
      return { bodies, cells: [cells], conditions: [], isRepeatable: true };
    });
    await this.#putAll(codec, keys, operations);
  }

  /** Settles when all mutations have ended, and rejects if any failed. */
  #putAll(codec: TableCodec, keys: readonly Buffer[], operations: readonly EncodedOperation[]): Promise<void> {
    return new Promise((resolve, reject) => {
      let pendingCount = 1;
      let firstFailure: { readonly error: unknown } | undefined;
      const finishOne = (): void => {
        if (--pendingCount > 0) return;
        if (firstFailure) reject(firstFailure.error);
        else resolve();
      };
      const failOne = (error: unknown): void => {
        // An error of a mutation that may have been applied takes precedence.
        if (!firstFailure || mayBeApplied(error)) firstFailure = { error };
        finishOne();
      };
      for (const [i, operation] of operations.entries()) {
        if (operation.bodies.length === 0) continue;
        pendingCount++;
        this.#dispatchMutation(codec, keys[i]!, operation, finishOne, failOne);
      }
      finishOne();
    });
  }

  /** Increments counters of a row, all or none. Returns the new values. Not repeated when it may have been applied. */
  async increment(table: TableHandle, key: Buffer, add: readonly Increment[]): Promise<bigint[]> {
    const codec = this.#codecFor(table);
    const { messages, cells } = encodeMutation(codec, { key, add });
    if (messages.length === 0) return [];
    const attempts = this.#newAttempts();
    for (;;) {
      let region: Region | undefined;
      try {
        region = await this.#regions.locate(codec.name, key, attempts);
        const request = new MessageWriter().bytes(1, region.specifier).bytes(2, messages[0]).finish();
        const answer = await this.#servers.get(region.server).call('Mutate', request, cells, attempts.expiresAt);
        return readCounters(codec, new CellCursor(answer.cells), add);
      } catch (error) {
        const failure = failureOrThrow(error);
        if (region) this.#dispatcher.noteFailure(failure, region);
        if (!failure.traits.isNotApplied) throw storeError(failure, 'unknown');
        await attempts.pause(failure, 'no');
      }
    }
  }

  /** Reads the regions from hbase:meta, in key order. Rejects with `noTable` when there are none. */
  async regions(table: TableHandle): Promise<RegionInfo[]> {
    const codec = this.#codecFor(table);
    const attempts = this.#newAttempts();
    for (;;) {
      try {
        const regions = await this.#regions.readAll(codec.name, attempts);
        return regions.map(({ start, end, server }) => ({ start, end, server }));
      } catch (error) {
        await attempts.pause(failureOrThrow(error), 'no');
      }
    }
  }

  /** Calls a method of the active master's MasterService and returns the response message. The call may be repeated. */
  callMaster(method: string, request: Buffer): Promise<Buffer> {
    return this.#masters.call(method, request);
  }

  /** Rejects all running operations. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#servers.close();
    this.#pauses.wakeAll();
  }

  #newAttempts(): Attempts {
    return new Attempts(this.settings, this.#pauses);
  }

  #codecFor(table: TableHandle): TableCodec {
    if (this.#isClosed) throw new StoreError('closed', 'the HBase client was closed');
    let codec = this.#codecs.get(table);
    if (!codec) {
      codec = new TableCodec(table);
      this.#codecs.set(table, codec);
    }
    return codec;
  }

  #dispatchGet(codec: TableCodec, key: Buffer, fields: Buffer, sink: RowCollector, index: number): void {
    const body = encodeGetField(key, fields);
    this.#dispatcher.dispatch(new GetOperation(this.#dispatcher, codec, key, sink.attempts, body, sink, index));
  }

  #dispatchMutation(
    codec: TableCodec,
    key: Buffer,
    encodedOperation: EncodedOperation,
    resolve: (isApplied: boolean) => void,
    reject: (error: unknown) => void,
  ): void {
    const finishWith = (settle: () => void): void => {
      this.#deadlines.delete(operation);
      settle();
    };
    const operation: MutateOperation = new MutateOperation(
      this.#dispatcher,
      codec,
      key,
      this.#newAttempts(),
      encodedOperation,
      (isApplied) => finishWith(() => resolve(isApplied)),
      (error) => finishWith(() => reject(error)),
    );
    this.#deadlines.add(operation);
    this.#dispatcher.dispatch(operation);
  }

  async #guardsHold(table: TableHandle, { key, guards = [] }: RowMutation): Promise<boolean> {
    const row = await this.get(table, key, { columns: guards });
    return guards.every((guard) => guardHolds(guard, row && cellValue(row, guard.family, guard.qualifier)));
  }
}

/** Collects the rows requested by a caller until the last one has arrived. */
class RowCollector implements RowSink, Expirable {
  readonly attempts: Attempts;
  readonly #deadlines: Deadlines;
  readonly #rows: (Buffer | undefined)[];
  readonly #resolve: (rows: (Buffer | undefined)[]) => void;
  readonly #reject: (error: unknown) => void;
  #missingCount: number;

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
    this.#missingCount = count;
    this.#resolve = resolve;
    this.#reject = reject;
    deadlines.add(this);
  }

  get expiresAt(): number {
    return this.attempts.expiresAt;
  }

  setRow(index: number, row: Buffer | undefined): void {
    this.#rows[index] = row;
    if (--this.#missingCount > 0) return;
    this.#deadlines.delete(this);
    this.#resolve(this.#rows);
  }

  reject(error: unknown): void {
    if (this.attempts.isAbandoned) return;
    this.#deadlines.delete(this);
    // The remaining requests are not sent any more.
    this.attempts.isAbandoned = true;
    this.#reject(error);
  }

  expire(): void {
    this.#reject(this.attempts.expire('no'));
  }
}

/** Encodes the fields of a Get other than row (1): column 2, filter 4. */
function encodeGetOptions(codec: TableCodec, options: ReadOptions): Buffer {
  const out = new MessageWriter();
  for (const column of encodeColumnList(codec, options)) out.bytes(2, column);
  return out.bytes(4, options.filter).finish();
}

/** Encodes the field of an Action: get 3 { row 1, … } */
function encodeGetField(key: Buffer, fields: Buffer): Buffer {
  const length = 1 + varintLength(key.length) + key.length + fields.length;
  const out = Buffer.allocUnsafe(1 + varintLength(length) + length);
  out[0] = 0x1a;
  let offset = writeVarint(out, 1, length);
  out[offset++] = 0x0a;
  offset = writeVarint(out, offset, key.length);
  out.set(key, offset);
  out.set(fields, offset + key.length);
  return out;
}

/** Encodes the field of an Action: mutation 2. */
function encodeMutationField(message: Buffer): Buffer {
  return new MessageWriter().bytes(2, message).finish();
}

function readCounters(codec: TableCodec, cells: CellCursor, add: readonly Increment[]): bigint[] {
  const counters: { family: number; qualifier: Buffer; value: bigint }[] = [];
  for (; !cells.isAtEnd; cells.advance()) {
    cells.parse();
    if (cells.valueLength !== 8) throw new StoreError('corrupt', `counter of ${cells.valueLength} bytes`);
    const family = codec.familyNumber(cells);
    counters.push({ family, qualifier: cells.qualifier(), value: cells.value().readBigInt64BE() });
  }
  return add.map((name) => {
    const counter = counters.find((cell) => compareCells(cell, name) === 0);
    if (!counter) throw new StoreError('corrupt', 'an increment was answered without its counter');
    return counter.value;
  });
}
