import { JobThread } from '../job-thread.js';
import { SlowWork, type Source } from '../slow-work.js';
import type { QualityAnswer, QualityJob } from './quality-worker.js';

/** Thrown when a password could not be judged. The message never contains the password. */
export class JudgingFault extends Error {
  override readonly name = 'JudgingFault';
}

const TIMEOUT_SECONDS = 10;
/** The most waiting jobs. A single network has at most half of the capacity. */
const CAPACITY = 256;

/**
 * Judges passwords by an estimate of their strength and by the operator's own module. Both run in a worker thread,
 * which is started at the first job, so that the event loop is not blocked. Jobs run one at a time. A job that exceeds
 * its time limit terminates the thread.
 */
export class Judge {
  readonly #queue = new SlowWork(1, CAPACITY);
  readonly #timeoutMs: number;
  readonly #thread = new JobThread<QualityJob, QualityAnswer>(
    new URL('./quality-worker.js', import.meta.url),
    'rowan-quality',
  );

  constructor(milliseconds = TIMEOUT_SECONDS * 1000) {
    this.#timeoutMs = milliseconds;
  }

  /**
   * Returns the reason to refuse the password, with advice for the user; undefined to accept it. Rejects with
   * `JudgingFault`, `SlowWorkFull` or `SlowWorkAbandoned`.
   */
  refusalReason(job: QualityJob, source: Source): Promise<string | undefined> {
    return this.#queue.run(async () => {
      const answer = await this.#askThread(job);
      if (!answer) throw new JudgingFault('the check of the password did not end in time');
      if ('fault' in answer) throw new JudgingFault(`the check in ${job.check} cannot be used: ${answer.fault}`);
      return answer.reason;
    }, source);
  }

  /** Resolves to undefined when the job did not end in time or the thread has crashed. */
  async #askThread(job: QualityJob): Promise<QualityAnswer | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<undefined>((resolve) => {
      timer = setTimeout(resolve, this.#timeoutMs, undefined);
    });
    const answer = await Promise.race([this.#thread.run(job), timeout]);
    clearTimeout(timer);
    if (!answer) await this.#thread.terminate();
    return answer;
  }
}

export const judge = new Judge();
