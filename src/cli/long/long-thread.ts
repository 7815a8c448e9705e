import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import { FairTree } from '../../fair/fair-tree.js';
import { bufferOf } from '../../ldap/bytes.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { LongReply, LongRequest, LongResult, LongWorker } from '../../server/processes/long-request.js';
import { onSettingsChanged } from '../../server/settings/index.js';
import { identityKey } from '../../server/words/session.js';
import type { Settings } from '../options.js';
import type { ThreadData } from './thread.js';
import { restoreResult, type ThreadOrder, type ThreadReport, toError } from './thread-messages.js';

/**
 * Runs one long write at a time, because a long write takes much memory. Users are served round-robin, and within a
 * user the connections. So a connection with many writes delays any other connection by a single write.
 */
export class WriteQueue {
  /** Waiting writes by user and connection. `LongAdmission` bounds their number. */
  readonly #waitingWrites = new FairTree<() => void>();
  #isBusy = false;

  /** `path`: user and connection. Rejects with `canceled` when the request is aborted while it waits. */
  async run<T>(
    path: readonly [string, number],
    reply: Pick<LongReply, 'onAbort'>,
    write: () => Promise<T>,
  ): Promise<T> {
    if (this.#isBusy) await this.#waitForTurn(path, reply);
    this.#isBusy = true;
    try {
      return await write();
    } finally {
      const startNext = this.#waitingWrites.shift();
      if (startNext) startNext();
      else this.#isBusy = false;
    }
  }

  #waitForTurn(path: readonly [string, number], reply: Pick<LongReply, 'onAbort'>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waitingWrites.push(path, resolve);
      reply.onAbort = () => {
        if (this.#waitingWrites.remove(path, resolve)) reject(new LdapError('canceled', 'canceled'));
      };
    });
  }
}

const PROGRAM = new URL('./thread.js', import.meta.url);
/** Milliseconds without requests after which the thread is stopped to free its memory. */
const IDLE_MS = 60_000;
/** The young generation of the thread's heap, in MiB. A larger one would be garbage for the most part. */
const YOUNG_GENERATION_MIB = 16;
/** With fewer open requests the thread has time for searches with many results. See `LongWorker.hasTime`. */
const BUSY_REQUESTS = 4;
/** The number of the first thread's writer. Lower numbers belong to processes. */
const FIRST_WRITER = 0x1000;

/** A request that was posted to the thread and has not ended. */
interface OpenRequest {
  readonly reply: LongReply;
  readonly resolve: (result: LongResult) => void;
  readonly reject: (error: unknown) => void;
  /** The LDAP message that the thread is sending in chunks. */
  messageChunks: PieceSource | undefined;
}

/**
 * Runs long requests in a thread, which opens the directory as another process would. The thread starts with the first
 * request and stops after `IDLE_MS` without requests.
 */
export class LongThread implements LongWorker {
  readonly #data: ThreadData;
  readonly #log: Logger;
  #thread: Worker | undefined;
  /** True when the thread has opened the directory. */
  #isReady = false;
  #threadExit: Promise<void> = Promise.resolve();
  readonly #openRequests = new Map<number, OpenRequest>();
  #lastId = 0;
  readonly #writes = new WriteQueue();
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(settings: Settings, log: Logger, worker?: number) {
    this.#data = { settings, writer: FIRST_WRITER + (worker ?? 0), worker };
    this.#log = log;
    onSettingsChanged(settings.config, (values) => this.#post({ type: 'settings', values }));
  }

  /** Starts the thread if none runs; a later call may then return true. */
  hasTime(localSearches: number): boolean {
    this.#thread ??= this.#startThread();
    return this.#isReady && this.#openRequests.size < Math.max(BUSY_REQUESTS, localSearches);
  }

  run(request: LongRequest, reply: LongReply): Promise<LongResult> {
    if (!request.isWrite) return this.#runRequest(request, reply);
    return this.#writes.run([identityKey(request.identity), request.connectionNumber], reply, () =>
      this.#runRequest(request, reply),
    );
  }

  async #runRequest(request: LongRequest, reply: LongReply): Promise<LongResult> {
    if (reply.aborted) throw new LdapError('canceled', 'canceled');
    clearTimeout(this.#idleTimer);
    this.#thread ??= this.#startThread();
    const id = ++this.#lastId;
    const result = new Promise<LongResult>((resolve, reject) => {
      this.#openRequests.set(id, { reply, resolve, reject, messageChunks: undefined });
    });
    reply.onAbort = () => this.#post({ type: 'abort', id });
    this.#post({ type: 'request', id, request }, [request.bytes.buffer]);
    return result;
  }

  #post(order: ThreadOrder, transfer: readonly ArrayBuffer[] = []): void {
    this.#thread?.postMessage(order, transfer);
  }

  #startThread(): Worker {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_GENERATION_MIB };
    const thread = new Worker(PROGRAM, { workerData: this.#data, execArgv: [], resourceLimits });
    thread.on('message', (report: ThreadReport) => {
      if (report.type !== 'ready') this.#handleReport(report);
      else if (this.#thread === thread) this.#handleReady();
    });
    thread.on('error', (error) => this.#handleExit(thread, error));
    this.#threadExit = new Promise((resolve) => {
      thread.once('exit', () => {
        this.#handleExit(thread, undefined);
        resolve();
      });
    });
    return thread;
  }

  #handleReady(): void {
    this.#isReady = true;
    if (this.#openRequests.size === 0) this.#stopWhenIdle();
  }

  #handleReport(report: Exclude<ThreadReport, { type: 'ready' }>): void {
    const openRequest = this.#openRequests.get(report.id);
    if (!openRequest) return;
    const { reply } = openRequest;
    switch (report.type) {
      case 'messages':
        void this.#sendMessages(report.id, reply, bufferOf(report.bytes));
        return;
      case 'piece':
        openRequest.messageChunks ??= this.#beginMessage(report.id, reply);
        openRequest.messageChunks.push(bufferOf(report.bytes));
        return;
      case 'pieced':
        openRequest.messageChunks?.end(report.broken);
        openRequest.messageChunks = undefined;
        return;
      case 'end':
        this.#closeRequest(report.id).resolve(restoreResult(report.result));
        return;
      case 'failed':
        this.#closeRequest(report.id).reject(toError(report.failure));
    }
  }

  async #sendMessages(id: number, reply: LongReply, bytes: Buffer): Promise<void> {
    await reply.sendMessages(bytes);
    this.#post({ type: 'taken', id });
  }

  #beginMessage(id: number, reply: LongReply): PieceSource {
    const messageChunks = new PieceSource(() => this.#post({ type: 'taken', id }));
    // A message is cut when its connection has ended. The thread then ends the request.
    reply.sendChunked(messageChunks).catch(() => this.#post({ type: 'cut', id }));
    return messageChunks;
  }

  #closeRequest(id: number): OpenRequest {
    const request = this.#openRequests.get(id)!;
    this.#openRequests.delete(id);
    if (this.#openRequests.size === 0) this.#stopWhenIdle();
    return request;
  }

  #stopWhenIdle(): void {
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => void this.close(), IDLE_MS).unref();
  }

  /** Fails all requests when the thread has crashed, perhaps for lack of memory. The server continues. */
  #handleExit(thread: Worker, error: Error | undefined): void {
    if (this.#thread !== thread) return;
    this.#thread = undefined;
    this.#isReady = false;
    this.#log.error({ err: error }, 'the thread for long work has ended');
    for (const { messageChunks, reject } of this.#openRequests.values()) {
      messageChunks?.end(true);
      reject(new LdapError('unavailable', 'the request was too much; whether a change was made is not known'));
    }
    this.#openRequests.clear();
  }

  /** Stops the thread, if one runs, and waits for its exit. No request may be open. */
  async close(): Promise<void> {
    clearTimeout(this.#idleTimer);
    const thread = this.#thread;
    this.#thread = undefined;
    this.#isReady = false;
    thread?.postMessage({ type: 'stop' } satisfies ThreadOrder);
    await this.#threadExit;
  }
}

/** The chunks of one LDAP message from another thread. The next chunk is requested when one was consumed. */
class PieceSource implements AsyncIterable<Buffer> {
  readonly #requestNext: () => void;
  readonly #chunks: Buffer[] = [];
  #ending: 'complete' | 'broken' | undefined;
  #wakeReader: (() => void) | undefined;

  constructor(requestNext: () => void) {
    this.#requestNext = requestNext;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#wakeReader?.();
  }

  /** `isBroken`: no more chunks come, but the message is not complete. */
  end(isBroken: boolean): void {
    this.#ending = isBroken ? 'broken' : 'complete';
    this.#wakeReader?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk) {
        yield chunk;
        this.#requestNext();
      } else if (this.#ending === 'broken') throw new Error('a message broke off');
      else if (this.#ending) return;
      else
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve;
        });
    }
  }
}
