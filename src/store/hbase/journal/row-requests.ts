import { counterBytes, EMPTY } from '../../row.js';
import type { Cluster, OpenTable } from '../cluster.js';
import type { Clock } from './clock.js';
import { ID_BYTES } from './codec.js';
import { IS_ALIVE, JOURNAL, MAX_TIME } from './journal-tables.js';
import { rowId } from './plan-rows.js';
import type { LockRequest, PlanContext, RemoteRequest } from './row-queue.js';

export interface WantedRow extends LockRequest {
  readonly table: OpenTable;
  readonly key: Buffer;
}

const EXCLUSIVE = 0x58;
const SHARED = 0x53;

/** Returns the identifier of a request: requester, lock mode, name of the row's table, 0, key of the row. */
function requestName(requester: Buffer, { table, key, exclusive }: WantedRow): Buffer {
  const mode = Buffer.from([exclusive ? EXCLUSIVE : SHARED]);
  return Buffer.concat([requester, mode, Buffer.from(`${table.spec.name}\0`, 'latin1'), key]);
}

export function rowOfRequest(name: Buffer): { table: string; key: Buffer } {
  const at = name.indexOf(0, ID_BYTES + 1);
  return { table: name.toString('latin1', ID_BYTES + 1, at), key: name.subarray(at + 1) };
}

/** Size from which a cell of requests is closed and another one begun, in bytes. */
const MAX_CELL_BYTES = 256 * 1024;
/** A cell starts with the version, a request with the priority and the length of the name, in bytes. */
const VERSION_BYTES = 8;
const REQUEST_HEADER = 12;

/** Returns the qualifier of a cell: the requester's id and the number of the cell. */
function cellQualifier(requester: Buffer, index: number): Buffer {
  const name = Buffer.allocUnsafe(ID_BYTES + 4);
  name.set(requester, 0);
  name.writeUInt32BE(index, ID_BYTES);
  return name;
}

/**
 * Encodes the requests of a front end as cells for the holder's journal row. Cells are overwritten, and emptied when
 * nothing is requested any more. Deleting cells would be slower: a region server that reads the row passes every
 * earlier deletion.
 */
function encodeCells(requests: readonly Pick<RemoteRequest, 'name' | 'priority'>[], version: bigint): Buffer[] {
  const cells: Buffer[] = [];
  let parts: Buffer[] = [];
  let bytes = 0;
  const close = (): void => {
    cells.push(Buffer.concat([counterBytes(version), ...parts]));
    parts = [];
    bytes = 0;
  };
  for (const { name, priority } of requests) {
    const head = Buffer.allocUnsafe(REQUEST_HEADER);
    head.writeBigUInt64BE(priority, 0);
    head.writeUInt32BE(name.length, 8);
    parts.push(head, name);
    bytes += REQUEST_HEADER + name.length;
    if (bytes > MAX_CELL_BYTES) close();
  }
  if (parts.length > 0) close();
  return cells;
}

export function parseRequestCell(cell: Buffer, value: Buffer): RemoteRequest[] {
  const requests: RemoteRequest[] = [];
  const version = value.subarray(0, VERSION_BYTES);
  for (let at = VERSION_BYTES; at < value.length; ) {
    const priority = value.readBigUInt64BE(at);
    const end = at + REQUEST_HEADER + value.readUInt32BE(at + 8);
    const name = value.subarray(at + REQUEST_HEADER, end);
    const { table, key } = rowOfRequest(name);
    requests.push({ cell, name, id: rowId(table, key), exclusive: name[ID_BYTES] === EXCLUSIVE, priority, version });
    at = end;
  }
  return requests;
}

/** A row that plans of this front end request from one holder. */
interface SentRequest {
  readonly name: Buffer;
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
  /** The write under way, and the write that follows it with all requests made by then. */
  sending: Promise<boolean> | undefined;
  next: Promise<boolean> | undefined;
}

/** The requests of this front end: per row the lowest priority of its plans, per holder a single mutation. */
export class RowRequests {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #resendMs: number;
  readonly #ownId: Buffer;
  readonly #outboxes = new Map<string, Outbox>();
  #version = 0n;

  constructor(cluster: Cluster, clock: Clock, resendMs: number, ownId: Buffer) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#resendMs = resendMs;
    this.#ownId = ownId;
  }

  /** Requests the rows, unless just requested with the same priority. Returns false when the holder is not alive. */
  send(holder: Buffer, rows: readonly WantedRow[], plan: PlanContext): Promise<boolean> {
    const to = holder.toString('latin1');
    let outbox = this.#outboxes.get(to);
    if (!outbox) {
      outbox = new Outbox();
      this.#outboxes.set(to, outbox);
    }
    const { requests } = outbox;
    let isSent = true;
    for (const row of rows) {
      const request = this.#sentRequest(requests, row);
      request.plans.add(plan);
      isSent &&=
        request.sentPriority === lowestPriority(request) && this.#clock.now() - request.sentAt < this.#resendMs;
    }
    if (isSent) return outbox.next ?? outbox.sending ?? Promise.resolve(true);
    return this.#schedule(holder, outbox);
  }

  #sentRequest(requests: Map<string, SentRequest>, row: WantedRow): SentRequest {
    const name = requestName(this.#ownId, row);
    const id = name.toString('latin1');
    let request = requests.get(id);
    if (!request) {
      request = { name, plans: new Set(), sentPriority: undefined, sentAt: 0 };
      requests.set(id, request);
    }
    return request;
  }

  /** Sends old requests of the plan again. For a plan that waits without having met a lock. */
  async resend(plan: PlanContext): Promise<void> {
    const before = this.#clock.now() - this.#resendMs;
    const writes: Promise<boolean>[] = [];
    for (const [to, outbox] of this.#outboxes) {
      const isOld = ({ plans, sentAt }: SentRequest): boolean => plans.has(plan) && sentAt <= before;
      if ([...outbox.requests.values()].some(isOld)) writes.push(this.#schedule(Buffer.from(to, 'latin1'), outbox));
    }
    await Promise.all(writes);
  }

  /** Removes the plan from all requests. Holders are sent the next priority, or that a row is no longer requested. */
  withdraw(plan: PlanContext): void {
    for (const [to, outbox] of this.#outboxes) {
      let changes = false;
      for (const request of outbox.requests.values())
        if (request.plans.delete(plan))
          changes ||= request.plans.size === 0 || lowestPriority(request) !== request.sentPriority;
      // A holder that does not receive this ignores the request after `Pace.requestExpiry`.
      if (changes) this.#schedule(Buffer.from(to, 'latin1'), outbox).catch(() => undefined);
    }
  }

  #schedule(holder: Buffer, outbox: Outbox): Promise<boolean> {
    if (!outbox.sending) {
      outbox.sending = this.#write(holder, outbox).finally(() => {
        outbox.sending = undefined;
      });
      return outbox.sending;
    }
    outbox.next ??= outbox.sending
      .catch(() => undefined)
      .then(() => {
        outbox.next = undefined;
        return this.#schedule(holder, outbox);
      });
    return outbox.next;
  }

  async #write(holder: Buffer, outbox: Outbox): Promise<boolean> {
    const requests: { name: Buffer; priority: bigint }[] = [];
    const now = this.#clock.now();
    for (const [id, request] of outbox.requests) {
      const { name } = request;
      const priority = lowestPriority(request);
      if (priority === undefined) outbox.requests.delete(id);
      else {
        requests.push({ name, priority });
        request.sentPriority = priority;
        request.sentAt = now;
      }
    }
    const cells = encodeCells(requests, ++this.#version);
    const count = cells.length;
    while (cells.length < outbox.cellCount) cells.push(EMPTY);
    outbox.cellCount = cells.length;
    let isAlive = false;
    try {
      isAlive = cells.length === 0 || (await this.#mutate(holder, cells));
      outbox.cellCount = count;
    } finally {
      // The holder is dead, or may not have received the requests: the next call of `send` writes all of them again.
      if (!isAlive) for (const request of outbox.requests.values()) request.sentPriority = undefined;
      if (outbox.requests.size === 0 && !outbox.next) this.#outboxes.delete(holder.toString('latin1'));
    }
    return isAlive;
  }

  #mutate(key: Buffer, cells: readonly Buffer[]): Promise<boolean> {
    const put = cells.map((value, i) => ({
      family: JOURNAL.ask,
      qualifier: cellQualifier(this.#ownId, i),
      value,
    }));
    // False always means that the holder is not alive, even when an earlier try whose answer was lost has succeeded.
    return this.#cluster.mutateGuarded(this.#cluster.journal, {
      key,
      guards: [IS_ALIVE],
      put,
      timestamp: MAX_TIME,
    });
  }
}
