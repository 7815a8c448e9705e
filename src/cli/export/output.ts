import { once } from 'node:events';
import {
  closeSync,
  constants,
  createWriteStream,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
  type WriteStream,
} from 'node:fs';

const BLOCK = 64 * 1024;

/** The error with the name of the file, which the system's calls on an open file leave out. */
function naming(error: unknown, file: string): unknown {
  if (error instanceof Error && 'syscall' in error) (error as NodeJS.ErrnoException).path ??= file;
  return error;
}

/**
 * Opens `file` for writing. A file, also one that was there, is readable for its owner only before it is emptied;
 * devices and pipes stay as they are.
 */
function openPrivate(file: string): number {
  const fd = openSync(file, constants.O_WRONLY | constants.O_CREAT, 0o600);
  try {
    if (fstatSync(fd).isFile()) {
      fchmodSync(fd, 0o600);
      ftruncateSync(fd);
    }
    return fd;
  } catch (error) {
    closeSync(fd);
    throw naming(error, file);
  }
}

/** Bytes on their way to a file or to standard output, gathered in blocks; a full pipe makes the writer wait. */
export class Output {
  readonly #stream: WriteStream | NodeJS.WriteStream;
  #block: Buffer[] = [];
  #length = 0;
  #error: Error | undefined;
  /** Goes on when the stream takes more. */
  #drained: (() => void) | undefined;

  /** To `file`, which only its owner may read, or to standard output. */
  constructor(file: string | undefined) {
    this.#stream = file === undefined ? process.stdout : createWriteStream(file, { fd: openPrivate(file) });
    this.#stream.on('error', (error: Error) => {
      naming(error, file ?? 'standard output');
      this.#error ??= error;
      this.#wake();
    });
    this.#stream.on('drain', () => this.#wake());
  }

  #wake(): void {
    this.#drained?.();
    this.#drained = undefined;
  }

  #drain(): Promise<void> {
    return new Promise((resolve) => {
      this.#drained = resolve;
    });
  }

  write(bytes: Buffer): Promise<void> | undefined {
    this.#block.push(bytes);
    this.#length += bytes.length;
    return this.#length < BLOCK ? undefined : this.#flush();
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#block, this.#length);
    this.#block = [];
    this.#length = 0;
    if (!this.#stream.write(bytes) && !this.#error) await this.#drain();
    if (this.#error) throw this.#error;
  }

  /** Resolves when all is written. */
  async end(): Promise<void> {
    await this.#flush();
    if (this.#stream === process.stdout) return;
    this.#stream.end();
    if (!this.#stream.closed) await once(this.#stream, 'close');
    if (this.#error) throw this.#error;
  }
}
