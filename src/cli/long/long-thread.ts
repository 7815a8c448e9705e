import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import { bufferOf } from '../../ldap/bytes.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { ProtocolError } from '../../protocol/protocol-error.js';
import type { Errand, ErrandEnd, ErrandReply, LongWorker } from '../../server/processes/long-worker.js';
import type { Outcome } from '../../server/words/outcome.js';
import { identityKey } from '../../server/words/session.js';
import type { Settings } from '../options.js';
import { revivedIdentity } from './identity.js';
import { Occupancy } from './occupancy.js';
import { PieceSource } from './piece-source.js';
import type { ThreadData } from './thread.js';
import type { Failure, ThreadOrder, ThreadReport } from './thread-messages.js';
import { WriteTurns } from './write-turns.js';

const PROGRAM = new URL('./thread.js', import.meta.url);
/** A thread with nothing to do ends after so long: it holds some memory. */
const IDLE_MS = 60_000;
/** So many errands leave no time for searches that the server can do itself, unless it has more of them. */
const BUSY = 4;
/** The threads' writers are numbered from here on, above those of the processes. */
const FIRST_WRITER = 0x1000;

interface Going {
  readonly reply: ErrandReply;
  readonly resolve: (end: ErrandEnd) => void;
  readonly reject: (error: unknown) => void;
  /** The message that comes in pieces. */
  pieces: PieceSource | undefined;
}

/**
 * Does long work in a thread of its own, which opens the directory as another process would. It starts with the first
 * errand; there is none while there is no long work.
 */
export class LongThread implements LongWorker {
  readonly #data: ThreadData;
  readonly #log: Logger;
  #thread: Worker | undefined;
  /** It has begun to take errands. */
  #ready = false;
  #ended: Promise<void> = Promise.resolve();
  readonly #going = new Map<number, Going>();
  #ids = 0;
  readonly #changes = new WriteTurns();
  readonly #occupancy: Occupancy;
  #idle: NodeJS.Timeout | undefined;

  constructor(settings: Settings, log: Logger, worker?: number) {
    this.#data = { settings, writer: FIRST_WRITER + (worker ?? 0), worker };
    this.#log = log;
    this.#occupancy = new Occupancy(settings.config.limits.longRequests);
  }

  /** Where there is no thread yet, one is started for the next to ask. */
  hasTime(here: number): boolean {
    this.#thread ??= this.#start();
    return this.#ready && this.#going.size < Math.max(BUSY, here);
  }

  async run(errand: Errand, reply: ErrandReply): Promise<ErrandEnd> {
    const user = identityKey(errand.identity);
    this.#occupancy.enter(user);
    try {
      if (!errand.changes) return await this.#run(errand, reply);
      return await this.#changes.run(user, errand.connection, () => this.#run(errand, reply));
    } finally {
      this.#occupancy.leave(user);
    }
  }

  #run(errand: Errand, reply: ErrandReply): Promise<ErrandEnd> {
    clearTimeout(this.#idle);
    this.#thread ??= this.#start();
    const id = ++this.#ids;
    const ended = new Promise<ErrandEnd>((resolve, reject) => {
      this.#going.set(id, { reply, resolve, reject, pieces: undefined });
    });
    reply.onAbort = () => this.#send({ type: 'abort', id });
    this.#send({ type: 'errand', id, errand }, [errand.bytes.buffer]);
    // It may have been aborted before.
    if (reply.aborted) this.#send({ type: 'abort', id });
    return ended;
  }

  #send(order: ThreadOrder, transfer: readonly ArrayBuffer[] = []): void {
    this.#thread?.postMessage(order, transfer);
  }

  #start(): Worker {
    const thread = new Worker(PROGRAM, { workerData: this.#data, execArgv: [] });
    thread.on('message', (report: ThreadReport) => {
      if (report.type !== 'ready') this.#heard(report);
      else if (this.#thread === thread) this.#begun();
    });
    thread.on('error', (error) => this.#failed(thread, error));
    this.#ended = new Promise((resolve) => {
      thread.once('exit', () => {
        this.#failed(thread, undefined);
        resolve();
      });
    });
    return thread;
  }

  #begun(): void {
    this.#ready = true;
    if (this.#going.size === 0) this.#rest();
  }

  #heard(report: Exclude<ThreadReport, { type: 'ready' }>): void {
    const going = this.#going.get(report.id);
    if (!going) return;
    const { reply } = going;
    switch (report.type) {
      case 'messages':
        void this.#give(report.id, reply, bufferOf(report.bytes));
        return;
      case 'piece':
        going.pieces ??= this.#begin(report.id, reply);
        going.pieces.push(bufferOf(report.bytes));
        return;
      case 'pieced':
        going.pieces?.end(report.broken);
        going.pieces = undefined;
        return;
      case 'end':
        this.#take(report.id).resolve(revived(report.end));
        return;
      case 'failed':
        this.#take(report.id).reject(errorOf(report.failure));
    }
  }

  async #give(id: number, reply: ErrandReply, bytes: Buffer): Promise<void> {
    await reply.messages(bytes);
    this.#send({ type: 'taken', id });
  }

  #begin(id: number, reply: ErrandReply): PieceSource {
    const pieces = new PieceSource(() => this.#send({ type: 'taken', id }));
    reply.message(pieces).catch(() => this.#send({ type: 'cut', id }));
    return pieces;
  }

  /** An errand has ended. */
  #take(id: number): Going {
    const going = this.#going.get(id)!;
    this.#going.delete(id);
    if (this.#going.size === 0) this.#rest();
    return going;
  }

  #rest(): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => void this.close(), IDLE_MS).unref();
  }

  /** The thread has broken down, for want of memory perhaps: the server goes on. */
  #failed(thread: Worker, error: Error | undefined): void {
    if (this.#thread !== thread) return;
    this.#thread = undefined;
    this.#ready = false;
    this.#log.error({ err: error }, 'the thread for long work has ended');
    for (const { pieces, reject } of this.#going.values()) {
      pieces?.end(true);
      reject(new LdapError('unavailable', 'the request was too much; whether a change was made is not known'));
    }
    this.#going.clear();
  }

  /** Ends the thread, if there is one, in order. Nothing may be going. */
  async close(): Promise<void> {
    clearTimeout(this.#idle);
    const thread = this.#thread;
    this.#thread = undefined;
    this.#ready = false;
    thread?.postMessage({ type: 'stop' } satisfies ThreadOrder);
    await this.#ended;
  }
}

function revived({ outcome, identity, entries }: ErrandEnd): ErrandEnd {
  const { controls } = outcome;
  const own: Outcome = controls
    ? { ...outcome, controls: controls.map((one) => ({ ...one, value: one.value && bufferOf(one.value) })) }
    : outcome;
  return { outcome: own, identity: revivedIdentity(identity), entries };
}

function errorOf({ message, result, protocol }: Failure): LdapError {
  if (!protocol) return new LdapError(result, message);
  const error = new ProtocolError('', protocol.offset, protocol.fatal, result);
  error.message = message;
  return error;
}
