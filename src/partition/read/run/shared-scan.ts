import { TimeSlice } from '../../../fair/time-slice.js';
import type { Batch, Maybe, Scan, Snapshot, Store, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { compileFilter, type RowTest } from '../../../store/row-filter.js';
import { keyAfter } from '../../../store/tables.js';
import { MASTER_TABLE, TREE_TABLE } from '../../model/tables.js';
import { CLOCK_INTERVAL, READ_BATCH } from './area.js';
import { checkHead } from './entry-check.js';
import { checkMissingRow, requireAllRows } from './lost-rows.js';
import { entryIdOf, hasChildren, remainingRows, type ScanTarget, scanRemainingRange } from './range-scan.js';
import type { SearchRun } from './search-run.js';

/** Units of work between two checks of the clock. Testing a row costs 1 unit, checking an entry `CHECK_COST`. */
const CLOCK_WORK = 256;
const CHECK_COST = 32;

export interface ScanShare {
  readonly containers: Buffer[];
  /** Releases the snapshot of the scan. It is closed when all searches have released it. */
  release(): void;
}

export interface Participant {
  readonly run: SearchRun;
  readonly filter: StoreFilter | undefined;
  readonly containers: Buffer[];
  readonly resolve: (share: ScanShare) => void;
  readonly reject: (error: unknown) => void;
  /** Whether the search has left the scan: it is finished, has failed, or continues alone. */
  hasLeft: boolean;
}

/** Reads a range of tree rows once for several searches. Each search checks the entries whose rows pass its filter. */
export class SharedScan {
  readonly #target: Omit<ScanTarget, 'filter'>;
  readonly #snapshot: Snapshot;
  /** Number of searches that have not released the snapshot yet. */
  #holderCount: number;
  /** Whether entries are read in batches, because each read is a round trip to a server. */
  readonly #isSpread: boolean;
  #participants: Participant[];
  /** Compiled filters. Empty for a single participant: the store applies its filter. */
  readonly #rowTests = new Map<Participant, RowTest>();
  #rowCount = 0;
  readonly #slice = new TimeSlice();
  /** Units of work since the last check of the clock. */
  #workUnits = 0;

  constructor(store: Store, target: Omit<ScanTarget, 'filter'>, participants: Participant[]) {
    this.#target = target;
    this.#participants = participants;
    this.#isSpread = store.supports.spread === true;
    this.#snapshot = store.snapshot();
    this.#holderCount = participants.length;
    for (const { run } of participants) run.reader = this.#snapshot;
  }

  /** Runs the scan. On return, every participant is settled, except those that continue alone. */
  async run(): Promise<void> {
    const { range, kind } = this.#target;
    let scan: Scan | undefined;
    try {
      scan = this.#snapshot.scan(TREE_TABLE.name, range, { filter: unionFilter(this.#participants) });
      while (this.#participants.length > 0) {
        const maybeBatch = scan.next();
        const batch = isPromise(maybeBatch) ? await maybeBatch : maybeBatch;
        if (!batch) {
          if (kind === 't') await requireAllRows(this.#participants[0]!.run.context, this.#snapshot, this.#rowCount);
          break;
        }
        this.#rowCount += batch.scannedCount;
        await this.#checkBatch(batch);
        const pause = this.#slice.yieldIfOver();
        if (isPromise(pause)) await pause;
      }
      for (const participant of this.#participants) this.#finish(participant);
    } catch (error) {
      for (const participant of this.#participants) this.#fail(participant, error);
    } finally {
      scan?.close();
    }
  }

  async #checkBatch(batch: Batch): Promise<void> {
    const isSingle = this.#participants.length === 1;
    for (const { run } of this.#participants) run.rowsExamined += batch.scannedCount;
    let heads: readonly (Buffer | undefined)[] | undefined;
    for (let i = 0; i < batch.keys.length; i++) {
      const pause = i % CLOCK_INTERVAL === CLOCK_INTERVAL - 1 ? this.#slice.yieldIfOver() : undefined;
      if (isPromise(pause)) await pause;
      if (this.#isSpread && i % READ_BATCH === 0) heads = await this.#readHeads(batch, i);
      const treeRow = batch.rows[i]!;
      const id = entryIdOf(treeRow);
      let head = heads ? heads[i % READ_BATCH] : null;
      for (const participant of [...this.#participants]) {
        const pause = this.#workUnits > CLOCK_WORK ? this.#resetWorkAndYield() : undefined;
        if (isPromise(pause)) await pause;
        this.#workUnits++;
        if (participant.hasLeft || (!isSingle && !this.#rowTestOf(participant)(treeRow))) continue;
        if (head === null) head = await this.#snapshot.getHead(MASTER_TABLE.name, id);
        this.#checkEntry(participant, batch, i, id, head);
        this.#workUnits += CHECK_COST;
      }
    }
    this.#participants = this.#participants.filter((participant) => {
      participant.hasLeft = !requireLimits(participant);
      if (participant.hasLeft) this.#release();
      return !participant.hasLeft;
    });
  }

  #resetWorkAndYield(): Maybe<void> {
    this.#workUnits = 0;
    return this.#slice.yieldIfOver();
  }

  #rowTestOf(participant: Participant): RowTest {
    let test = this.#rowTests.get(participant);
    if (!test) {
      test = participant.filter ? compileFilter(participant.filter) : () => true;
      this.#rowTests.set(participant, test);
    }
    return test;
  }

  /** Reads entries of the batch from row number `firstRow` on; none if no participant is left. */
  async #readHeads(batch: Batch, firstRow: number): Promise<readonly (Buffer | undefined)[]> {
    if (this.#participants.length === 0) return [];
    const rows = batch.rows.slice(firstRow, firstRow + READ_BATCH);
    return this.#snapshot.getMany(
      MASTER_TABLE.name,
      rows.map((row) => entryIdOf(row!)),
    );
  }

  /** Checks the entry of row number `i` for a participant. A participant that would have to wait leaves the scan. */
  #checkEntry(participant: Participant, batch: Batch, i: number, id: Buffer, head: Buffer | undefined): void {
    const { run, containers } = participant;
    const { kind } = this.#target;
    const clientReady = run.params.client?.waitForDrain();
    if (isPromise(clientReady)) {
      this.#leave(participant, batch, i, clientReady);
      return;
    }
    if (kind === 's' && hasChildren(batch.rows[i])) containers.push(Buffer.from(id));
    try {
      if (!head) {
        checkMissingRow(run.context, id);
        return;
      }
      const completion = checkHead(run, id, head, kind, batch.keys[i]!);
      if (isPromise(completion)) this.#leave(participant, batch, i + 1, completion);
      else if (run.isPageFull) this.#finish(participant);
    } catch (error) {
      this.#fail(participant, error);
    }
  }

  /**
   * Lets a search that has to wait (for its client or for a read) continue alone from row number `rowNumber` of the
   * batch, so that the others need not wait. If it waits for its client, it holds no rows, only the key to continue
   * from.
   */
  #leave(participant: Participant, batch: Batch, rowNumber: number, waiting: Promise<void>): void {
    this.#remove(participant);
    const { run, filter, containers } = participant;
    const { until, keys } = batch;
    const clientReady = run.isClientBehind ? waiting : undefined;
    const from = rowNumber > 0 ? keyAfter(keys[rowNumber - 1]!) : Buffer.from(keys[0]!);
    // Rows can be kept only if the engine has reported the end of the batch.
    const mayKeep = until !== undefined && !clientReady;
    const remaining = mayKeep
      ? remainingRows(batch, rowNumber, filter)
      : { from, droppedCount: keys.length - rowNumber, clientReady };
    const target = { ...this.#target, filter };
    const rowCount = this.#rowCount;
    waiting
      .then(() => scanRemainingRange(run, remaining, until, target, rowCount, containers))
      .then(
        () => this.#finish(participant),
        (error) => this.#fail(participant, error),
      );
  }

  #finish(participant: Participant): void {
    this.#remove(participant);
    participant.resolve({ containers: participant.containers, release: () => this.#release() });
  }

  #fail(participant: Participant, error: unknown): void {
    this.#remove(participant);
    this.#release();
    participant.reject(error);
  }

  #remove(participant: Participant): void {
    participant.hasLeft = true;
    this.#participants = this.#participants.filter((other) => other !== participant);
  }

  #release(): void {
    if (--this.#holderCount === 0) this.#snapshot.close();
  }
}

/** Whether the search is within its limits; otherwise it is rejected. */
export function requireLimits({ run, reject }: Participant): boolean {
  try {
    run.checkLimits();
    return true;
  } catch (error) {
    reject(error);
    return false;
  }
}

/** Returns a filter that passes every row that the filter of some participant passes. */
function unionFilter(participants: readonly Participant[]): StoreFilter | undefined {
  const filters = new Set(participants.map(({ filter }) => filter));
  if (filters.has(undefined)) return undefined;
  const filterList = [...filters] as StoreFilter[];
  return filterList.length === 1 ? filterList[0] : { op: 'or', of: filterList };
}
