import { Worker } from 'node:worker_threads';

/**
 * A worker thread that answers jobs in the order of their arrival. Started at the first job, and again at the next job
 * after a crash. The thread keeps the process alive only while a job waits.
 */
export class JobThread<Job, Answer> {
  readonly #program: URL;
  readonly #name: string;
  #worker: Worker | undefined;
  #answerCallbacks: ((answer: Answer | undefined) => void)[] = [];

  constructor(program: URL, name: string) {
    this.#program = program;
    this.#name = name;
  }

  /** Sends the job to the thread. Resolves to undefined if the thread crashed or was terminated. */
  run(job: Job, transfer: readonly ArrayBuffer[] = []): Promise<Answer | undefined> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    return new Promise((resolve) => {
      this.#answerCallbacks.push(resolve);
      worker.ref();
      worker.postMessage(job, transfer);
    });
  }

  async terminate(): Promise<void> {
    const worker = this.#worker;
    this.#dropWorker();
    await worker?.terminate();
  }

  #start(): Worker {
    const worker = new Worker(this.#program, { name: this.#name });
    worker.on('message', (answer: Answer) => {
      if (this.#worker !== worker) return;
      this.#answerCallbacks.shift()?.(answer);
      if (this.#answerCallbacks.length === 0) worker.unref();
    });
    for (const event of ['error', 'exit']) worker.on(event, () => this.#worker === worker && this.#dropWorker());
    return worker;
  }

  #dropWorker(): void {
    this.#worker = undefined;
    for (const resolve of this.#answerCallbacks.splice(0)) resolve(undefined);
  }
}
