import { counterBytes, EMPTY } from '../../row.js';
import type { Cluster, OpenTable } from '../cluster.js';
import { ID_BYTES } from './codec.js';
import { IS_ALIVE, JOURNAL, MAX_TIME } from './journal-tables.js';
import { rowId } from './plan-rows.js';
import type { LockRequest, PlanContext, RemoteRequest } from './row-queue.js';
import type { Clock } from './tickets.js';

export interface WantedRow extends LockRequest {
  readonly table: OpenTable;
  readonly key: Buffer;
}

const EXCLUSIVE = 0x58;
const SHARED = 0x53;

/** Returns the key of a request: id of the requester, lock mode, name of the row's table, 0, key of the row. */
function encodeRequestKey(requester: Buffer, { table, key, isExclusive }: WantedRow): Buffer {
  const mode = Buffer.from([isExclusive ? EXCLUSIVE : SHARED]);
  return Buffer.concat([requester, mode, Buffer.from(`${table.spec.name}\0`, 'latin1'), key]);
}

export function rowOfRequest(requestKey: Buffer): { table: string; key: Buffer } {
  const separator = requestKey.indexOf(0, ID_BYTES + 1);
  return { table: requestKey.toString('latin1', ID_BYTES + 1, separator), key: requestKey.subarray(separator + 1) };
}

/** A cell with more bytes of requests than this takes no further request. */
const MAX_CELL_BYTES = 256 * 1024;
/** Length of the version at the start of a cell. */
const VERSION_BYTES = 8;
/** Length of the header of each request in a cell: the priority, and the length of the request key. */
const REQUEST_HEADER = 12;

/** Returns the qualifier of a cell of requests: the requester's id and the number of the cell. */
function cellQualifier(requester: Buffer, index: number): Buffer {
  const qualifier = Buffer.allocUnsafe(ID_BYTES + 4);
  qualifier.set(requester, 0);
  qualifier.writeUInt32BE(index, ID_BYTES);
  return qualifier;
}

/**
 * Encodes the requests of a front end as values of cells in the holder's journal row. Cells are overwritten, and
 * emptied when nothing is requested any more. Deleting cells would be slower: a region server that reads the row skips
 * every earlier deletion.
 */
function encodeCells(requests: readonly Pick<RemoteRequest, 'requestKey' | 'priority'>[], version: bigint): Buffer[] {
  const values: Buffer[] = [];
  let requestBuffers: Buffer[] = [];
  let byteCount = 0;
  const closeCell = (): void => {
    values.push(Buffer.concat([counterBytes(version), ...requestBuffers]));
    requestBuffers = [];
    byteCount = 0;
  };
  for (const { requestKey, priority } of requests) {
    const header = Buffer.allocUnsafe(REQUEST_HEADER);
    header.writeBigUInt64BE(priority, 0);
    header.writeUInt32BE(requestKey.length, 8);
    requestBuffers.push(header, requestKey);
    byteCount += REQUEST_HEADER + requestKey.length;
    if (byteCount > MAX_CELL_BYTES) closeCell();
  }
  if (requestBuffers.length > 0) closeCell();
  return values;
}

export function parseRequestCell(qualifier: Buffer, value: Buffer): RemoteRequest[] {
  const requests: RemoteRequest[] = [];
  const version = value.subarray(0, VERSION_BYTES);
  for (let offset = VERSION_BYTES; offset < value.length; ) {
    const priority = value.readBigUInt64BE(offset);
    const end = offset + REQUEST_HEADER + value.readUInt32BE(offset + 8);
    const requestKey = value.subarray(offset + REQUEST_HEADER, end);
    const { table, key } = rowOfRequest(requestKey);
    const isExclusive = requestKey[ID_BYTES] === EXCLUSIVE;
    requests.push({ qualifier, requestKey, id: rowId(table, key), isExclusive, priority, version });
    offset = end;
  }
  return requests;
}

/** A row that plans of this front end request from one holder. */
interface SentRequest {
  readonly requestKey: Buffer;
  readonly plans: Set<PlanContext>;
  /** The priority that was sent to the holder, and the time when it was sent. */
  sentPriority: bigint | undefined;
  sentAt: number;
}

function lowestPriority({ plans }: SentRequest): bigint | undefined {
  let lowest: bigint | undefined;
  for (const { priority } of plans)
    if (priority !== undefined && (lowest === undefined || priority < lowest)) lowest = priority;
  return lowest;
}

/** The requests to one holder. */
class Outbox {
  readonly requests = new Map<string, SentRequest>();
  /** Number of cells in the holder's journal row that may be non-empty. */
  cellCount = 0;
  /** The write under way, and the write that follows it with all requests made meanwhile. */
  currentWrite: Promise<boolean> | undefined;
  nextWrite: Promise<boolean> | undefined;
}

/** Sends this front end's requests for rows: a mutation per holder, with the lowest priority of the plans per row. */
export class RowRequests {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #resendMs: number;
  readonly #writerId: Buffer;
  readonly #outboxes = new Map<string, Outbox>();
  #version = 0n;

  constructor(cluster: Cluster, clock: Clock, resendMs: number, writerId: Buffer) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#resendMs = resendMs;
    this.#writerId = writerId;
  }

  /** Requests the rows, unless just requested with the same priority. Returns false when the holder is not alive. */
  send(holder: Buffer, rows: readonly WantedRow[], plan: PlanContext): Promise<boolean> {
    const outboxKey = holder.toString('latin1');
    let outbox = this.#outboxes.get(outboxKey);
    if (!outbox) {
      outbox = new Outbox();
      this.#outboxes.set(outboxKey, outbox);
    }
    const { requests } = outbox;
    let isSent = true;
    for (const row of rows) {
      const request = this.#findOrCreateRequest(requests, row);
      request.plans.add(plan);
      isSent &&=
        request.sentPriority === lowestPriority(request) && this.#clock.now() - request.sentAt < this.#resendMs;
    }
    if (isSent) return outbox.nextWrite ?? outbox.currentWrite ?? Promise.resolve(true);
    return this.#scheduleWrite(holder, outbox);
  }

  #findOrCreateRequest(requests: Map<string, SentRequest>, row: WantedRow): SentRequest {
    const requestKey = encodeRequestKey(this.#writerId, row);
    const keyText = requestKey.toString('latin1');
    let request = requests.get(keyText);
    if (!request) {
      request = { requestKey, plans: new Set(), sentPriority: undefined, sentAt: 0 };
      requests.set(keyText, request);
    }
    return request;
  }

  /** Sends the plan's requests again before they expire. For a plan that waits although the row is not locked. */
  async resend(plan: PlanContext): Promise<void> {
    const maxSentAt = this.#clock.now() - this.#resendMs;
    const writes: Promise<boolean>[] = [];
    for (const [outboxKey, outbox] of this.#outboxes) {
      const isOld = ({ plans, sentAt }: SentRequest): boolean => plans.has(plan) && sentAt <= maxSentAt;
      if ([...outbox.requests.values()].some(isOld))
        writes.push(this.#scheduleWrite(Buffer.from(outboxKey, 'latin1'), outbox));
    }
    await Promise.all(writes);
  }

  /** Removes the plan from all requests. Holders are sent the next priority, or that a row is no longer requested. */
  withdraw(plan: PlanContext): void {
    for (const [outboxKey, outbox] of this.#outboxes) {
      let hasChanged = false;
      for (const request of outbox.requests.values())
        if (request.plans.delete(plan))
          hasChanged ||= request.plans.size === 0 || lowestPriority(request) !== request.sentPriority;
      // A holder that does not receive this ignores the request after `Pace.requestExpiryMs`.
      if (hasChanged) this.#scheduleWrite(Buffer.from(outboxKey, 'latin1'), outbox).catch(() => undefined);
    }
  }

  #scheduleWrite(holder: Buffer, outbox: Outbox): Promise<boolean> {
    if (!outbox.currentWrite) {
      outbox.currentWrite = this.#writeRequests(holder, outbox).finally(() => {
        outbox.currentWrite = undefined;
      });
      return outbox.currentWrite;
    }
    // The callers of the current write get its error.
    outbox.nextWrite ??= outbox.currentWrite
      .catch(() => undefined)
      .then(() => {
        outbox.nextWrite = undefined;
        return this.#scheduleWrite(holder, outbox);
      });
    return outbox.nextWrite;
  }

  async #writeRequests(holder: Buffer, outbox: Outbox): Promise<boolean> {
    const requests: { requestKey: Buffer; priority: bigint }[] = [];
    const now = this.#clock.now();
    for (const [id, request] of outbox.requests) {
      const { requestKey } = request;
      const priority = lowestPriority(request);
      if (priority === undefined) outbox.requests.delete(id);
      else {
        requests.push({ requestKey, priority });
        request.sentPriority = priority;
        request.sentAt = now;
      }
    }
    const cells = encodeCells(requests, ++this.#version);
    const filledCellCount = cells.length;
    while (cells.length < outbox.cellCount) cells.push(EMPTY);
    outbox.cellCount = cells.length;
    let isAlive = false;
    try {
      isAlive = cells.length === 0 || (await this.#putCells(holder, cells));
      outbox.cellCount = filledCellCount;
    } finally {
      // The holder is dead, or may not have received the requests: the next call of `send` writes all of them again.
      if (!isAlive) for (const request of outbox.requests.values()) request.sentPriority = undefined;
      if (outbox.requests.size === 0 && !outbox.nextWrite) this.#outboxes.delete(holder.toString('latin1'));
    }
    return isAlive;
  }

  #putCells(key: Buffer, cells: readonly Buffer[]): Promise<boolean> {
    const put = cells.map((value, i) => ({ family: JOURNAL.ask, qualifier: cellQualifier(this.#writerId, i), value }));
    // False always means that the holder is not alive, even when an earlier try whose answer was lost has succeeded.
    return this.#cluster.mutateGuarded(this.#cluster.journal, { key, guards: [IS_ALIVE], put, timestamp: MAX_TIME });
  }
}
