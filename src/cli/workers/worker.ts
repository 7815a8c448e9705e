/** Program of a worker process: serves the sockets that the supervisor accepts. `WorkerProcess` starts it. */
import type { Socket } from 'node:net';
import type { Answer, Question, Siblings } from '../../server/processes/siblings.js';
import { RowanServer } from '../../server/server.js';
import { renewCertificate } from '../certificate.js';
import { describeError } from '../exit.js';
import { beginLines, suppressLmdbErrors } from '../lmdb-texts.js';
import { createLog, logUncaught } from '../log.js';
import { LongThread } from '../long/long-thread.js';
import { openDirectory } from '../open-directory.js';
import type { Settings } from '../options.js';
import { sendTo, type WorkerOrder, type WorkerReport } from './worker-process.js';

function report(message: WorkerReport): void {
  sendTo(process, message);
}

/** Asks the other processes through the supervisor. */
class RemoteSiblings implements Siblings {
  readonly workerNumber: number;
  readonly isAlone = false;
  readonly #answerResolvers = new Map<number, (answers: Answer[]) => void>();
  #questionCount = 0;

  constructor(worker: number) {
    this.workerNumber = worker;
    process.once('disconnect', () => {
      for (const id of this.#answerResolvers.keys()) this.resolveAnswers(id, []);
    });
  }

  ask(question: Question): Promise<Answer[]> {
    if (!process.connected) return Promise.resolve([]);
    const id = this.#questionCount++;
    report({ type: 'question', id, question });
    return new Promise((resolve) => this.#answerResolvers.set(id, resolve));
  }

  resolveAnswers(id: number, answers: Answer[]): void {
    this.#answerResolvers.get(id)?.(answers);
    this.#answerResolvers.delete(id);
  }
}

/** Serves until the supervisor sends `stop` or disconnects. */
async function serve(worker: number, settings: Settings): Promise<void> {
  const log = createLog(settings.config, worker);
  logUncaught(log);
  const directory = await openDirectory(settings, { worker });
  if (settings.config.store === undefined) beginLines(settings.store);
  const siblings = new RemoteSiblings(worker);
  const longThread = new LongThread(settings, log, worker);
  const server = new RowanServer(directory.partition, settings.config, log, { siblings, longWorker: longThread });
  try {
    await server.prepare();
    await new Promise<void>((stop) => {
      process.once('disconnect', stop);
      process.on('message', (order: WorkerOrder, socket: unknown) => {
        if (order.type === 'socket') acceptSocket(server, order, socket as Socket | undefined);
        else if (order.type === 'question')
          report({ type: 'answer', id: order.id, answer: server.answer(order.question) });
        else if (order.type === 'answers') siblings.resolveAnswers(order.id, order.answers);
        else if (order.type === 'renewCertificate') renewCertificate(server, log, 'debug');
        else if (order.type === 'stop') stop();
      });
      report({ type: 'ready' });
    });
  } finally {
    await server.close();
    report({ type: 'counts', counts: server.services.statistics.counts() });
    directory.partition.store.beginClose?.();
    await longThread.close();
    await directory.close();
  }
}

/** The socket is missing when its client has disconnected on the way. */
function acceptSocket(
  server: RowanServer,
  order: Extract<WorkerOrder, { type: 'socket' }>,
  socket: Socket | undefined,
): void {
  report({ type: 'taken', id: order.id });
  if (!socket) {
    report({ type: 'closed' });
    return;
  }
  socket.once('close', () => report({ type: 'closed' }));
  server.receive(order.index, socket, order.elsewhere);
}

// A terminal signals the whole process group. Workers wait for the orders of the supervisor instead.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

suppressLmdbErrors();
process.once('message', (order: WorkerOrder) => {
  if (order.type !== 'start') return;
  serve(order.worker, order.settings)
    .catch((error: unknown) => {
      report({ type: 'failed', message: describeError(error) });
      process.exitCode = 1;
    })
    .finally(() => {
      if (process.connected) process.disconnect();
    });
});
