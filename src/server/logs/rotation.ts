import { open, readdir, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../settings/index.js';

const CHECK_MS = 1000;
const DAY_MS = 86_400_000;
/** Bytes at the beginning of a file that contain the time of its first line. */
const HEAD_BYTES = 200;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/;
/** End of the name of a former file, also when another program has compressed the file. */
const FORMER = /^\.\d{8}T\d{9}Z(?:\.\w+)?$/;

type RotationSettings = Omit<Config['auditLog'], 'refused'>;

/**
 * Renames the files of the access log and the audit log when due, and removes the oldest files. The processes that
 * write notice that a file was renamed. Returns a function that ends the rotation.
 */
export function startRotation({ accessLog, auditLog }: Config, log: Logger): () => void {
  const rotations = [accessLog, auditLog].map((settings) => new Rotation(settings, log));
  const check = (): void => {
    for (const rotation of rotations) void rotation.check();
  };
  const timer = setInterval(check, CHECK_MS).unref();
  check();
  return () => clearInterval(timer);
}

class Rotation {
  readonly #settings: RotationSettings;
  readonly #log: Logger;
  /** Time of the first line of the file, in milliseconds since 1970. */
  #beganAt: number | undefined;
  #isChecking = false;
  #hasFailed = false;

  constructor(settings: RotationSettings, log: Logger) {
    this.#settings = settings;
    this.#log = log;
  }

  /** Never rejects. A failure is logged once until a rotation succeeds. */
  async check(): Promise<void> {
    const { output } = this.#settings;
    if (this.#isChecking || output === 'off' || output === 'stderr') return;
    this.#isChecking = true;
    try {
      if (await this.#isDue()) await this.#rotate();
    } catch (error) {
      // Without a file nothing has been logged, or another server has renamed the file.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' && !this.#hasFailed) {
        this.#hasFailed = true;
        this.#log.error(`${this.#settings.output} cannot be rotated: ${(error as Error).message}`);
      }
    } finally {
      this.#isChecking = false;
    }
  }

  async #isDue(): Promise<boolean> {
    const { output, maxBytes, days } = this.#settings;
    const { size } = await stat(output);
    if (maxBytes > 0 && size >= maxBytes) return true;
    if (size === 0 || days === 0) return false;
    this.#beganAt ??= await firstTime(output);
    return Date.now() - this.#beganAt >= days * DAY_MS;
  }

  async #rotate(): Promise<void> {
    const { output, keep } = this.#settings;
    await rename(output, `${output}.${new Date().toISOString().replace(/[-:.]/g, '')}`);
    this.#beganAt = undefined;
    const folder = dirname(output);
    const name = basename(output);
    const formerNames = (await readdir(folder)).filter(
      (entry) => entry.startsWith(name) && FORMER.test(entry.slice(name.length)),
    );
    const surplusCount = Math.max(0, formerNames.length - keep);
    for (const surplus of formerNames.sort().slice(0, surplusCount)) await unlink(join(folder, surplus));
    this.#hasFailed = false;
  }
}

/** Returns the time in the first line of a file, or the present when the line has none. */
async function firstTime(path: string): Promise<number> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const time = TIME.exec(buffer.toString('latin1', 0, bytesRead));
    return time ? Date.parse(time[0]) : Date.now();
  } finally {
    await file.close();
  }
}
