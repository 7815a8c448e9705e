import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StoreError } from '../../store-error.js';

/** In the folder of a store whose data was found damaged; for people as well (docs/formats/lmdb.md). */
const MARKER = 'rowan-damaged.json';
/** How long another process may go on writing, ms. */
const AGE_MS = 100;

/**
 * Whether writes to a folder are held because its data is damaged. A file says so, to every process and after a
 * restart.
 */
export class WriteHold {
  readonly #path: string;
  #held = false;
  /** The file could not be made. */
  #alone = false;
  #why = 'it cannot be read where';
  #looked = Number.NEGATIVE_INFINITY;

  constructor(folder: string) {
    this.#path = join(folder, MARKER);
  }

  /** The first reason stays. Where the file cannot be made, this process alone holds, as long as it lives. */
  hold(why: string): void {
    if (this.#held) return;
    this.#held = true;
    this.#why = why;
    this.#looked = performance.now();
    try {
      writeFileSync(this.#path, `${JSON.stringify({ found: new Date().toISOString(), why })}\n`, {
        flag: 'wx',
        mode: 0o600,
      });
    } catch (error) {
      this.#alone = (error as NodeJS.ErrnoException).code !== 'EEXIST';
    }
  }

  /** Throws `held`. */
  check(): void {
    const now = performance.now();
    if (now - this.#looked > AGE_MS) {
      this.#looked = now;
      this.#held = this.#alone || existsSync(this.#path);
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
    this.#alone = false;
    return held;
  }
}
