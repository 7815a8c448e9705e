/** The thread that does what would hold the event loop of a server for long. `LongThread` starts it. */
import { parentPort, workerData } from 'node:worker_threads';
import { LdapError } from '../../ldap/ldap-error.js';
import { ProtocolError } from '../../protocol/protocol-error.js';
import { runErrand } from '../../server/long/errand-run.js';
import type { Errand, ErrandReply } from '../../server/processes/long-worker.js';
import { createServices, type Services } from '../../server/services/services.js';
import type { Maybe } from '../../server/words/maybe.js';
import { describeError } from '../exit.js';
import { createLog } from '../log.js';
import { openDirectory } from '../open-directory.js';
import type { Settings } from '../options.js';
import { revivedIdentity } from './identity.js';
import type { Failure, ThreadOrder, ThreadReport } from './thread-messages.js';

/** What `LongThread` gives it. */
export interface ThreadData {
  readonly settings: Settings;
  /** Number of this writer among those of the server. */
  readonly writer: number;
  /** Of the worker process, where there are several. */
  readonly worker: number | undefined;
}

const { settings, writer, worker } = workerData as ThreadData;
const port = parentPort!;
const replies = new Map<number, Reply>();

function report(message: ThreadReport, transfer: readonly ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** Pieces of whole messages that are on their way at a time. */
const UNDER_WAY = 4;

/** Sends what an errand finds, some pieces ahead. */
class Reply implements ErrandReply {
  aborted = false;
  onAbort: (() => void) | undefined;
  readonly #id: number;
  /** Sent and not taken. */
  #away = 0;
  #taken: ((whole: boolean) => void) | undefined;

  constructor(id: number) {
    this.#id = id;
  }

  messages(bytes: Buffer): Maybe<void> {
    this.#send('messages', bytes);
    return this.#away < UNDER_WAY ? undefined : this.#nextTaken().then(() => undefined);
  }

  /** One piece at a time. */
  async message(pieces: AsyncIterable<Buffer>): Promise<void> {
    let whole = false;
    try {
      while (this.#away > 0) await this.#nextTaken();
      for await (const piece of pieces) {
        if (piece.length === 0) continue;
        this.#send('piece', piece);
        if (!(await this.#nextTaken())) throw new LdapError('canceled', 'canceled');
      }
      whole = true;
    } finally {
      report({ type: 'pieced', id: this.#id, broken: !whole });
    }
  }

  #send(type: 'messages' | 'piece', bytes: Buffer): void {
    const own = new Uint8Array(bytes);
    this.#away++;
    report({ type, id: this.#id, bytes: own }, [own.buffer]);
  }

  /** False when the rest is not wanted. */
  #nextTaken(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#taken = resolve;
    });
  }

  taken(whole: boolean): void {
    this.#away--;
    this.#taken?.(whole);
  }

  abort(): void {
    this.aborted = true;
    this.onAbort?.();
  }
}

async function run(services: Services, id: number, errand: Errand): Promise<void> {
  const reply = new Reply(id);
  replies.set(id, reply);
  try {
    // The other thread may have written since this one last read.
    services.partition.renewReads();
    const end = await runErrand(services, { ...errand, identity: revivedIdentity(errand.identity) }, reply);
    report({ type: 'end', id, end });
  } catch (error) {
    report({ type: 'failed', id, failure: failureOf(error) });
  } finally {
    replies.delete(id);
  }
}

function failureOf(error: unknown): Failure {
  if (error instanceof ProtocolError) {
    const { message, result, offset, fatal } = error;
    return { message, result, protocol: { offset, fatal } };
  }
  if (error instanceof LdapError) return { message: error.message, result: error.result };
  return { message: describeError(error), result: 'other' };
}

const directory = await openDirectory(settings, { worker: writer });
const services = createServices(directory.partition, settings.config, createLog(settings.config, worker));
port.on('message', (order: ThreadOrder) => {
  if (order.type === 'errand') void run(services, order.id, order.errand);
  else if (order.type === 'abort') replies.get(order.id)?.abort();
  else if (order.type === 'taken') replies.get(order.id)?.taken(true);
  else if (order.type === 'cut') replies.get(order.id)?.taken(false);
  else
    void directory.close().finally(() => {
      port.close();
    });
});
report({ type: 'ready' });
