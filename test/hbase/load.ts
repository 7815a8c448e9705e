import { setTimeout as sleep } from 'node:timers/promises';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { StoreError } from '../../src/store/store-error.js';
import { type Fixture, Random } from '../partition/fixture.js';
import { type Heard, heardOf } from '../partition/kill.js';
import { type Told, WRITERS } from '../partition/kill-model.js';
import { write } from '../partition/kill-writer.js';

/** Whether the caller was told that the store does not answer, and nothing else. */
export function isUnavailable(error: unknown): boolean {
  const cause = error instanceof LdapError && error.result === 'unavailable' ? error.cause : error;
  return cause instanceof StoreError && cause.code === 'unavailable';
}

/** Does it again while the store does not answer: right after a start it does not for every region. */
export async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      await sleep(100);
    }
  }
}

/** Eight writers over front ends of this process, who do what kill-writer.ts chooses and note what they were told. */
export class Load {
  /** Writers that were told `unavailable` and write no more: what they had begun may have been done or not. */
  unavailable = 0;
  acknowledged = 0;
  readonly #told: Told[] = [];
  readonly #running: Promise<unknown>;
  #writing = WRITERS;
  #stopped = false;

  /** `pauseMs`: of each writer between two operations. */
  constructor(fronts: readonly Fixture[], random: Random, pauseMs = 0) {
    const writers = Array.from({ length: WRITERS }, (_, k) =>
      this.#write(fronts[k % fronts.length]!, k, new Random(random.int(2 ** 31)), pauseMs),
    );
    this.#running = Promise.all(writers);
    // It is `more` and `stop` that tell.
    this.#running.catch(() => undefined);
  }

  async #write(front: Fixture, writer: number, random: Random, pauseMs: number): Promise<void> {
    try {
      await write(
        front,
        writer,
        random,
        async (told) => {
          this.#tell(told);
          if (pauseMs > 0 && !told.begins) await sleep(pauseMs);
        },
        () => this.#stopped,
      );
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.unavailable++;
    } finally {
      this.#writing--;
    }
  }

  #tell(told: Told): void {
    this.#told.push(told);
    if (!told.begins) this.acknowledged++;
  }

  /** Whether no writer writes any more. */
  get over(): boolean {
    return this.#writing === 0;
  }

  /**
   * Resolves when so many more operations were acknowledged, or no writer writes any more; rejects with a writer's
   * failure.
   */
  async more(count: number): Promise<void> {
    const wanted = this.acknowledged + count;
    while (this.acknowledged < wanted && !this.over) await Promise.race([sleep(20), this.#running]);
  }

  /** Lets everybody end what was begun. */
  async stop(): Promise<Heard> {
    this.#stopped = true;
    await this.#running;
    return heardOf(this.#told);
  }
}
