import { StoreError } from '../../store-error.js';
import type { CellCursor, TableCodec } from './cells.js';
import type { Bounded } from './deadlines.js';
import type { Failure } from './failure.js';
import type { Operation } from './gather.js';
import type { Region } from './regions.js';
import { type Attempts, storeError } from './retry.js';

const NO_CELLS: readonly Buffer[] = [];

/** What an operation needs of the client: to be sent, and sent again. */
export interface Dispatcher {
  /** Finds the region, sets it, and gives the operation to that server's lane. */
  dispatch(operation: RowOperation): void;
  /** Notes what the failure says of regions and servers. */
  learn(failure: Failure, region: Region): void;
  /** Counts cells that came. */
  received(cells: number): void;
}

/** One row's request through its attempts, until its caller has an answer. */
export abstract class RowOperation implements Operation {
  readonly table: TableCodec;
  readonly key: Buffer;
  readonly attempts: Attempts;
  abstract readonly atomic: boolean;
  abstract readonly bodies: readonly Buffer[];
  abstract readonly cells: readonly Buffer[];
  abstract readonly bytes: number;
  condition: Buffer | undefined = undefined;
  settled = false;
  inFlight = false;
  /** Whether an attempt may have been done without our knowing. */
  uncertain = false;
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

  get expires(): number {
    return this.attempts.expires;
  }

  get isOver(): boolean {
    return this.attempts.over;
  }

  sendTo(region: Region): void {
    this.#region = region;
    this.settled = false;
  }

  answer(cells: CellCursor, count: number, processed: boolean): void {
    this.settled = true;
    this.inFlight = false;
    try {
      this.succeed(cells, count, processed);
    } catch (e) {
      this.reject(e);
      // The cursor is not where the next answer begins.
      throw e;
    }
  }

  failed(failure: Failure): void {
    this.settled = true;
    this.inFlight = false;
    void this.#again(failure);
  }

  /** No attempt is left, or none would help. */
  abstract reject(error: unknown): void;
  protected abstract succeed(cells: CellCursor, count: number, processed: boolean): void;
  /** Whether it may be sent again after a failure that does not say that nothing was done. */
  protected abstract readonly repeatable: boolean;
  /** Whether being done twice makes no difference to what is stored, as of reads. */
  protected abstract readonly reads: boolean;

  /** Once the answers that came with this one are given: until then it counts as settled. */
  protected dispatchAgain(): void {
    if (!this.isOver) queueMicrotask(() => this.dispatcher.dispatch(this));
  }

  async #again(failure: Failure): Promise<void> {
    try {
      if (this.#region) this.dispatcher.learn(failure, this.#region);
      if (!failure.traits.undone && !this.reads) this.uncertain = true;
      const applied = this.uncertain ? 'unknown' : 'no';
      if (this.uncertain && !this.repeatable) throw storeError(failure, applied);
      await this.attempts.pause(failure, applied);
      this.dispatcher.dispatch(this);
    } catch (e) {
      this.reject(e);
    }
  }
}

/** Where the row of a get goes: the place `index` of its caller's answer. */
export interface RowSink {
  row(index: number, row: Buffer | undefined): void;
  reject(error: unknown): void;
}

export class GetOperation extends RowOperation {
  readonly bodies: readonly Buffer[];
  readonly cells = NO_CELLS;
  readonly bytes: number;
  readonly atomic = false;
  protected readonly repeatable = true;
  protected readonly reads = true;
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
    this.bytes = body.length;
    this.#sink = sink;
    this.#index = index;
  }

  reject(error: unknown): void {
    this.#sink.reject(error);
  }

  protected succeed(cells: CellCursor, count: number): void {
    this.dispatcher.received(count);
    this.#sink.row(this.#index, this.table.pack(cells, count));
  }
}

export interface MutateParts {
  /** Fields `mutation` of Actions. */
  readonly bodies: readonly Buffer[];
  readonly cells: readonly Buffer[];
  /** Fields `condition` of RegionAction, to be tried in order until one holds. */
  readonly conditions: readonly Buffer[];
  readonly repeatable: boolean;
  /** A guard that fails after an attempt without an answer says false. */
  readonly doubtIsFalse?: boolean;
}

export class MutateOperation extends RowOperation implements Bounded {
  readonly bodies: readonly Buffer[];
  readonly cells: readonly Buffer[];
  readonly bytes: number;
  readonly atomic: boolean;
  protected readonly repeatable: boolean;
  protected readonly reads = false;
  readonly #conditions: readonly Buffer[];
  readonly #resolve: (done: boolean) => void;
  readonly #reject: (error: unknown) => void;
  readonly #doubtIsFalse: boolean;
  #tried = 0;

  constructor(
    dispatcher: Dispatcher,
    table: TableCodec,
    key: Buffer,
    attempts: Attempts,
    parts: MutateParts,
    resolve: (done: boolean) => void,
    reject: (error: unknown) => void,
  ) {
    super(dispatcher, table, key, attempts);
    this.bodies = parts.bodies;
    this.cells = parts.cells;
    this.bytes = lengthOf(parts.bodies) + lengthOf(parts.cells);
    this.#conditions = parts.conditions;
    this.condition = parts.conditions[0];
    this.atomic = parts.bodies.length > 1 || parts.conditions.length > 0;
    this.repeatable = parts.repeatable;
    this.#doubtIsFalse = parts.doubtIsFalse === true;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  reject(error: unknown): void {
    if (!this.isOver) this.#reject(error);
  }

  expire(): void {
    this.#reject(this.attempts.expire(this.uncertain || this.inFlight ? 'unknown' : 'no'));
  }

  protected succeed(_cells: CellCursor, _count: number, processed: boolean): void {
    if (this.isOver) return;
    if (processed) this.#resolve(true);
    else if (++this.#tried < this.#conditions.length) {
      this.condition = this.#conditions[this.#tried];
      this.dispatchAgain();
    } else if (this.uncertain && !this.#doubtIsFalse) {
      const message = 'a guard does not hold, but an earlier attempt without an answer may have been what changed it';
      this.#reject(new StoreError('unavailable', message, { applied: 'unknown' }));
    } else this.#resolve(false);
  }
}

function lengthOf(parts: readonly Buffer[]): number {
  let length = 0;
  for (const part of parts) length += part.length;
  return length;
}
