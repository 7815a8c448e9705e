import { Worker } from 'node:worker_threads';
import { SlowWork } from '../slow-work.js';
import type { Source } from '../source.js';
import type { QualityAnswer, QualityJob } from './quality-worker.js';

/** A password that could not be judged: the text says why, and holds nothing of it. */
export class JudgingFault extends Error {
  override readonly name = 'JudgingFault';
}

const SECONDS = 10;
/** Jobs that wait at most; one network has at most half of them. */
const ROOM = 256;

/**
 * Estimates the strength of passwords, and asks the operator's own module, in a thread that is started at the first
 * use: neither holds the event loop. One job at a time; one that does not end in time ends with its thread.
 */
export class Judge {
  readonly #queue = new SlowWork(1, ROOM);
  readonly #milliseconds: number;
  #worker: Worker | undefined;
  #settle: ((answer: QualityAnswer | undefined) => void) | undefined;

  constructor(milliseconds = SECONDS * 1000) {
    this.#milliseconds = milliseconds;
  }

  /**
   * What is to be changed in the password; undefined: nothing. Rejects with `JudgingFault`, with `SlowWorkFull` where
   * too many wait, and with `SlowWorkLeft`.
   */
  reason(job: QualityJob, source: Source): Promise<string | undefined> {
    return this.#queue.run(async () => {
      const answer = await this.#ask(job);
      if (!answer) throw new JudgingFault('the check of the password did not end in time');
      if ('fault' in answer) throw new JudgingFault(`the check in ${job.check} cannot be used: ${answer.fault}`);
      return answer.reason;
    }, source);
  }

  /** Undefined: the thread has ended, or has been ended. */
  async #ask(job: QualityJob): Promise<QualityAnswer | undefined> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    let timer: NodeJS.Timeout | undefined;
    const answer = await new Promise<QualityAnswer | undefined>((resolve) => {
      this.#settle = resolve;
      timer = setTimeout(resolve, this.#milliseconds, undefined);
      worker.ref();
      worker.postMessage(job);
    });
    clearTimeout(timer);
    this.#settle = undefined;
    worker.unref();
    if (!answer) {
      this.#worker = undefined;
      await worker.terminate();
    }
    return answer;
  }

  #start(): Worker {
    const worker = new Worker(new URL('./quality-worker.js', import.meta.url), { name: 'rowan-quality' });
    const lost = (): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#settle?.(undefined);
    };
    worker.on('message', (answer: QualityAnswer) => this.#settle?.(answer));
    worker.on('error', lost);
    worker.on('exit', lost);
    return worker;
  }
}

/** The one of this process. */
export const judge = new Judge();
