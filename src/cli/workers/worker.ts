/** A worker process: serves the sockets that the supervisor accepts. `WorkerProcess` starts it. */
import type { Socket } from 'node:net';
import type { Answer, Question, Siblings } from '../../server/processes/siblings.js';
import { RowanServer } from '../../server/server.js';
import { renewCertificate } from '../certificate.js';
import { describeError } from '../exit.js';
import { createLog, logUncaught } from '../log.js';
import { LongThread } from '../long/long-thread.js';
import { openDirectory } from '../open-directory.js';
import type { Settings } from '../options.js';
import { sendTo, type WorkerOrder, type WorkerReport } from './worker-messages.js';

function report(message: WorkerReport): void {
  sendTo(process, message);
}

/** Asks the others by way of the supervisor. */
class Others implements Siblings {
  readonly worker: number;
  readonly alone = false;
  readonly #waiting = new Map<number, (answers: Answer[]) => void>();
  #asked = 0;

  constructor(worker: number) {
    this.worker = worker;
    process.once('disconnect', () => {
      for (const id of this.#waiting.keys()) this.answered(id, []);
    });
  }

  ask(question: Question): Promise<Answer[]> {
    if (!process.connected) return Promise.resolve([]);
    const id = this.#asked++;
    report({ type: 'question', id, question });
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  answered(id: number, answers: Answer[]): void {
    this.#waiting.get(id)?.(answers);
    this.#waiting.delete(id);
  }
}

/** Serves until it is told to stop, or the supervisor is gone. */
async function work(worker: number, settings: Settings): Promise<void> {
  const log = createLog(settings.config, worker);
  logUncaught(log);
  const directory = await openDirectory(settings, { worker });
  const others = new Others(worker);
  const long = new LongThread(settings, log, worker);
  const server = new RowanServer(directory.partition, settings.config, log, { siblings: others, long });
  try {
    await server.prepare();
    await new Promise<void>((stop) => {
      process.once('disconnect', stop);
      process.on('message', (order: WorkerOrder, socket: unknown) => {
        if (order.type === 'socket') take(server, order, socket as Socket | undefined);
        else if (order.type === 'question')
          report({ type: 'answer', id: order.id, answer: server.answer(order.question) });
        else if (order.type === 'answers') others.answered(order.id, order.answers);
        else if (order.type === 'renewCertificate') renewCertificate(server, log);
        else if (order.type === 'stop') stop();
      });
      report({ type: 'ready' });
    });
  } finally {
    await server.close();
    directory.partition.store.ending?.();
    await long.close();
    await directory.close();
  }
}

/** The socket is missing when its client has gone on the way. */
function take(server: RowanServer, order: Extract<WorkerOrder, { type: 'socket' }>, socket: Socket | undefined): void {
  report({ type: 'taken', id: order.id });
  if (!socket) {
    report({ type: 'closed' });
    return;
  }
  socket.once('close', () => report({ type: 'closed' }));
  server.receive(order.index, socket, order.elsewhere);
}

// A terminal sends them to every process of the group; the supervisor says what follows from them.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);

process.once('message', (order: WorkerOrder) => {
  if (order.type !== 'start') return;
  work(order.worker, order.settings)
    .catch((error: unknown) => {
      report({ type: 'failed', message: describeError(error) });
      process.exitCode = 1;
    })
    .finally(() => {
      if (process.connected) process.disconnect();
    });
});
