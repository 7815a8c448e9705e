/** Program of the thread that runs long requests. `LongThread` starts it. */
import { parentPort, workerData } from 'node:worker_threads';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../partition/index.js';
import { runLongRequest } from '../../server/long/run-long-request.js';
import type { LongReply, LongRequest } from '../../server/processes/long-request.js';
import { createServices, type Services } from '../../server/services/services.js';
import { applySettings } from '../../server/settings/index.js';
import { suppressLmdbErrors } from '../lmdb-texts.js';
import { createLog } from '../log.js';
import { openDirectory } from '../open-directory.js';
import type { Settings } from '../options.js';
import { restoreIdentity, type ThreadOrder, type ThreadReport, toFailureData } from './thread-messages.js';

/** The parameters of the thread. */
export interface ThreadData {
  readonly settings: Settings;
  /** Number of the thread's writer, unique among the writers of the server. */
  readonly writer: number;
  /** Number of the worker process; undefined when the server is one process. */
  readonly worker: number | undefined;
}

const { settings, writer, worker } = workerData as ThreadData;
const port = parentPort!;
const replies = new Map<number, Reply>();

function report(message: ThreadReport, transfer: readonly ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** The most posted buffers of whole messages that are not acknowledged. */
const MAX_UNACKNOWLEDGED = 4;

/** Posts the messages of one request to the main thread, a few buffers ahead of the client. */
class Reply implements LongReply {
  aborted = false;
  onAbort: (() => void) | undefined;
  readonly #id: number;
  /** The number of posted buffers that were not acknowledged. */
  #pendingCount = 0;
  #resolveAcknowledgment: ((wasSent: boolean) => void) | undefined;

  constructor(id: number) {
    this.#id = id;
  }

  sendMessages(bytes: Buffer): Maybe<void> {
    this.#post('messages', bytes);
    return this.#pendingCount < MAX_UNACKNOWLEDGED ? undefined : this.#waitForAcknowledgment().then(() => undefined);
  }

  /** Posts one piece at a time. */
  async sendChunked(chunks: AsyncIterable<Buffer>): Promise<void> {
    let isComplete = false;
    try {
      while (this.#pendingCount > 0) await this.#waitForAcknowledgment();
      for await (const chunk of chunks) {
        if (chunk.length === 0) continue;
        this.#post('piece', chunk);
        if (!(await this.#waitForAcknowledgment())) throw new LdapError('canceled', 'canceled');
      }
      isComplete = true;
    } finally {
      report({ type: 'pieced', id: this.#id, broken: !isComplete });
    }
  }

  #post(type: 'messages' | 'piece', bytes: Buffer): void {
    const copy = new Uint8Array(bytes);
    this.#pendingCount++;
    report({ type, id: this.#id, bytes: copy }, [copy.buffer]);
  }

  /** Resolves to false when the rest of the message in pieces cannot be sent. */
  #waitForAcknowledgment(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#resolveAcknowledgment = resolve;
    });
  }

  acknowledge(wasSent: boolean): void {
    this.#pendingCount--;
    this.#resolveAcknowledgment?.(wasSent);
  }

  abort(): void {
    this.aborted = true;
    this.onAbort?.();
  }
}

async function run(services: Services, id: number, request: LongRequest): Promise<void> {
  const reply = new Reply(id);
  replies.set(id, reply);
  try {
    // Other threads may have written since this thread last read.
    services.partition.renewReads();
    const result = await runLongRequest(services, { ...request, identity: restoreIdentity(request.identity) }, reply);
    report({ type: 'end', id, result });
  } catch (error) {
    report({ type: 'failed', id, failure: toFailureData(error) });
  } finally {
    replies.delete(id);
  }
}

suppressLmdbErrors();
const directory = await openDirectory(settings, { worker: writer });
const services = createServices(directory.partition, settings.config, createLog(settings.config, worker));

async function close(): Promise<void> {
  await services.searchTally?.flush();
  await directory.close();
}

port.on('message', (order: ThreadOrder) => {
  if (order.type === 'request') void run(services, order.id, order.request);
  else if (order.type === 'abort') replies.get(order.id)?.abort();
  else if (order.type === 'taken') replies.get(order.id)?.acknowledge(true);
  else if (order.type === 'settings') void applySettings(settings.config, order.values);
  else if (order.type === 'cut') replies.get(order.id)?.acknowledge(false);
  else
    void close().finally(() => {
      port.close();
    });
});
report({ type: 'ready' });
