import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from '../../store-error.js';

/** Name of the file that marks damaged data in the folder of a store (docs/formats/lmdb.md). */
const MARKER = 'rowan-damaged.json';
/** Interval between checks for the file, in ms. For this long, another process may continue to write. */
const CHECK_MS = 100;

/**
 * The block on writes to a folder whose data is damaged. A marker file makes it known to other processes and restarts.
 */
export class WriteHold {
  readonly #path: string;
  #held = false;
  /** True if the file could not be created, so that the block exists in this process only. */
  #inMemoryOnly = false;
  #why = 'it cannot be read where';
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string) {
    this.#path = join(folder, MARKER);
  }

  /**
   * Blocks writes. An earlier reason is kept. If the file cannot be created, only this process blocks, until it ends.
   */
  hold(why: string): void {
    if (this.#held) return;
    this.#held = true;
    this.#why = why;
    this.#checkedAt = performance.now();
    try {
      writeFileSync(this.#path, `${JSON.stringify({ found: new Date().toISOString(), why })}\n`, {
        flag: 'wx',
        mode: 0o600,
      });
    } catch (error) {
      this.#inMemoryOnly = (error as NodeJS.ErrnoException).code !== 'EEXIST';
    }
  }

  /** Throws `held` if writes are blocked. */
  check(): void {
    const now = performance.now();
    if (now - this.#checkedAt > CHECK_MS) {
      this.#checkedAt = now;
      this.#held = this.#inMemoryOnly || existsSync(this.#path);
    }
    if (this.#held) {
      throw new StoreError(
        'held',
        `nothing is written, because the data is damaged: ${this.#reason()}; see ${this.#path}, run "rowan check"`,
      );
    }
  }

  #reason(): string {
    try {
      return String((JSON.parse(readFileSync(this.#path, 'utf8')) as { why?: unknown }).why);
    } catch {
      return this.#why;
    }
  }

  async release(): Promise<boolean> {
    const held = this.#held || existsSync(this.#path);
    await rm(this.#path, { force: true });
    this.#held = false;
    this.#inMemoryOnly = false;
    return held;
  }
}
