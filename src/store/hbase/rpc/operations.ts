import { StoreError } from '../../store-error.js';
import type { CellCursor, TableCodec } from './cells.js';
import type { Failure } from './failure.js';
import type { QueuedAction } from './multi-queue.js';
import type { Region } from './regions.js';
import { type Attempts, type Expirable, storeError } from './retry.js';

const NO_CELLS: readonly Buffer[] = [];

/** Sends operations on rows, and sends them again after failures. */
export interface Dispatcher {
  /** Finds the region of the operation and adds the operation to the queue of its server. */
  dispatch(operation: RowOperation): void;
  /** Updates regions and servers after a failure. */
  noteFailure(failure: Failure, region: Region): void;
  countCells(cells: number): void;
}

/** A request for a row, through all attempts until its caller has an answer. */
export abstract class RowOperation implements QueuedAction {
  readonly table: TableCodec;
  readonly key: Buffer;
  readonly attempts: Attempts;
  abstract readonly isAtomic: boolean;
  abstract readonly bodies: readonly Buffer[];
  abstract readonly cells: readonly Buffer[];
  abstract readonly byteCount: number;
  condition: Buffer | undefined = undefined;
  isAnswered = false;
  isInFlight = false;
  /** Whether an earlier attempt may have been applied without an answer. */
  mayBeApplied = false;
  #region: Region | undefined;
  protected readonly dispatcher: Dispatcher;

  constructor(dispatcher: Dispatcher, table: TableCodec, key: Buffer, attempts: Attempts) {
    this.dispatcher = dispatcher;
    this.table = table;
    this.key = key;
    this.attempts = attempts;
  }

  get region(): Region {
    return this.#region!;
  }

  get expiresAt(): number {
    return this.attempts.expiresAt;
  }

  get isAbandoned(): boolean {
    return this.attempts.isAbandoned;
  }

  prepareFor(region: Region): void {
    this.#region = region;
    this.isAnswered = false;
  }

  complete(cells: CellCursor, cellCount: number, isProcessed: boolean): void {
    this.isAnswered = true;
    this.isInFlight = false;
    try {
      this.handleAnswer(cells, cellCount, isProcessed);
    } catch (error) {
      this.reject(error);
      // The cursor has stopped inside this answer, so the answers behind it cannot be read.
      throw error;
    }
  }

  fail(failure: Failure): void {
    this.isAnswered = true;
    this.isInFlight = false;
    void this.#retry(failure);
  }

  /** Ends the operation: no attempt is left, or none would succeed. */
  abstract reject(error: unknown): void;
  protected abstract handleAnswer(cells: CellCursor, cellCount: number, isProcessed: boolean): void;
  /** Whether the operation may be sent again after a failure without `isNotApplied`. */
  protected abstract readonly isRepeatable: boolean;
  /** Whether executing the operation twice leaves the stored data unchanged, as for reads. */
  protected abstract readonly isRead: boolean;

  /** Sends the operation again when the other answers are processed. Until then it counts as answered. */
  protected dispatchAgain(): void {
    if (!this.isAbandoned) queueMicrotask(() => this.dispatcher.dispatch(this));
  }

  async #retry(failure: Failure): Promise<void> {
    try {
      if (this.#region) this.dispatcher.noteFailure(failure, this.#region);
      if (!failure.traits.isNotApplied && !this.isRead) this.mayBeApplied = true;
      const applied = this.mayBeApplied ? 'unknown' : 'no';
      if (this.mayBeApplied && !this.isRepeatable) throw storeError(failure, applied);
      await this.attempts.pause(failure, applied);
      this.dispatcher.dispatch(this);
    } catch (error) {
      this.reject(error);
    }
  }
}

/** Receives the row of a get as element `index` of the caller's result. */
export interface RowSink {
  setRow(index: number, row: Buffer | undefined): void;
  reject(error: unknown): void;
}

export class GetOperation extends RowOperation {
  readonly bodies: readonly Buffer[];
  readonly cells = NO_CELLS;
  readonly byteCount: number;
  readonly isAtomic = false;
  protected readonly isRepeatable = true;
  protected readonly isRead = true;
  readonly #sink: RowSink;
  readonly #index: number;

  /** `body`: field `get` of an Action. */
  constructor(
    dispatcher: Dispatcher,
    table: TableCodec,
    key: Buffer,
    attempts: Attempts,
    body: Buffer,
    sink: RowSink,
    index: number,
  ) {
    super(dispatcher, table, key, attempts);
    this.bodies = [body];
    this.byteCount = body.length;
    this.#sink = sink;
    this.#index = index;
  }

  reject(error: unknown): void {
    this.#sink.reject(error);
  }

  protected handleAnswer(cells: CellCursor, cellCount: number): void {
    this.dispatcher.countCells(cellCount);
    this.#sink.setRow(this.#index, this.table.pack(cells, cellCount));
  }
}

export interface EncodedOperation {
  /** Fields `mutation` of Actions. */
  readonly bodies: readonly Buffer[];
  readonly cells: readonly Buffer[];
  /** Fields `condition` of RegionAction, to be tried in order until one holds. */
  readonly conditions: readonly Buffer[];
  readonly isRepeatable: boolean;
  /** Whether a guard that fails after an attempt without an answer resolves with false instead of an error. */
  readonly isFalseWhenUnknown?: boolean;
}

export class MutateOperation extends RowOperation implements Expirable {
  readonly bodies: readonly Buffer[];
  readonly cells: readonly Buffer[];
  readonly byteCount: number;
  readonly isAtomic: boolean;
  protected readonly isRepeatable: boolean;
  protected readonly isRead = false;
  readonly #conditions: readonly Buffer[];
  readonly #resolve: (isApplied: boolean) => void;
  readonly #reject: (error: unknown) => void;
  readonly #isFalseWhenUnknown: boolean;
  #conditionIndex = 0;

  constructor(
    dispatcher: Dispatcher,
    table: TableCodec,
    key: Buffer,
    attempts: Attempts,
    encodedOperation: EncodedOperation,
    resolve: (isApplied: boolean) => void,
    reject: (error: unknown) => void,
  ) {
    super(dispatcher, table, key, attempts);
    this.bodies = encodedOperation.bodies;
    this.cells = encodedOperation.cells;
    this.byteCount = totalLength(encodedOperation.bodies) + totalLength(encodedOperation.cells);
    this.#conditions = encodedOperation.conditions;
    this.condition = encodedOperation.conditions[0];
    this.isAtomic = encodedOperation.bodies.length > 1 || encodedOperation.conditions.length > 0;
    this.isRepeatable = encodedOperation.isRepeatable;
    this.#isFalseWhenUnknown = encodedOperation.isFalseWhenUnknown === true;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  reject(error: unknown): void {
    if (!this.isAbandoned) this.#reject(error);
  }

  expire(): void {
    this.#reject(this.attempts.expire(this.mayBeApplied || this.isInFlight ? 'unknown' : 'no'));
  }

  protected handleAnswer(_cells: CellCursor, _cellCount: number, isProcessed: boolean): void {
    if (this.isAbandoned) return;
    if (isProcessed) this.#resolve(true);
    else if (++this.#conditionIndex < this.#conditions.length) {
      this.condition = this.#conditions[this.#conditionIndex];
      this.dispatchAgain();
    } else if (this.mayBeApplied && !this.#isFalseWhenUnknown) {
      const message = 'a guard does not hold, but an earlier attempt without an answer may have been what changed it';
      this.#reject(new StoreError('unavailable', message, { applied: 'unknown' }));
    } else this.#resolve(false);
  }
}

function totalLength(buffers: readonly Buffer[]): number {
  let length = 0;
  for (const buffer of buffers) length += buffer.length;
  return length;
}
