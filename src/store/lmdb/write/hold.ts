import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from '../../store-error.js';

/** Name of the file that marks damaged data in the folder of a store (docs/formats/lmdb.md). */
const MARKER_FILE = 'rowan-damaged.json';
/** Interval between checks for the file, in ms. For this long, another process may continue to write. */
const CHECK_MS = 100;

/**
 * The block on writes to a folder whose data is damaged. A marker file makes it known to other processes and restarts.
 */
export class WriteHold {
  readonly #path: string;
  #isHeld = false;
  /** True if the file could not be created, so that the block exists in this process only. */
  #isInMemoryOnly = false;
  #firstReason = 'it cannot be read where';
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string) {
    this.#path = join(folder, MARKER_FILE);
  }

  /**
   * Blocks writes. An earlier reason is kept. If the file cannot be created, only this process blocks, until it ends.
   */
  hold(why: string): void {
    if (this.#isHeld) return;
    this.#isHeld = true;
    this.#firstReason = why;
    this.#checkedAt = performance.now();
    try {
      writeFileSync(this.#path, `${JSON.stringify({ found: new Date().toISOString(), why })}\n`, {
        flag: 'wx',
        mode: 0o600,
      });
    } catch (error) {
      this.#isInMemoryOnly = (error as NodeJS.ErrnoException).code !== 'EEXIST';
    }
  }

  /** Throws `held` if writes are blocked. */
  check(): void {
    const now = performance.now();
    if (now - this.#checkedAt > CHECK_MS) {
      this.#checkedAt = now;
      this.#isHeld = this.#isInMemoryOnly || existsSync(this.#path);
    }
    if (this.#isHeld) {
      throw new StoreError(
        'held',
        `nothing is written, because the data is damaged: ${this.#readReason()}; see ${this.#path}, run "rowan check"`,
      );
    }
  }

  #readReason(): string {
    try {
      return String((JSON.parse(readFileSync(this.#path, 'utf8')) as { why?: unknown }).why);
    } catch {
      // The file is gone by now, or could never be written.
      return this.#firstReason;
    }
  }

  async release(): Promise<boolean> {
    const wasHeld = this.#isHeld || existsSync(this.#path);
    await rm(this.#path, { force: true });
    this.#isHeld = false;
    this.#isInMemoryOnly = false;
    return wasHeld;
  }
}
