import { once } from 'node:events';
import { constants, createWriteStream, openSync, statSync, type WriteStream } from 'node:fs';
import { WholeFile } from '../whole-file.js';

const BLOCK = 64 * 1024;

/** The error with the name of the file, which the system's calls on an open file leave out. */
function naming(error: unknown, file: string): unknown {
  if (error instanceof Error && 'syscall' in error) (error as NodeJS.ErrnoException).path ??= file;
  return error;
}

/** Whether it is to be made, or replaced; devices and pipes are written to as they are. */
function isToMake(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? true;
}

/** Bytes on their way to a file or to standard output, gathered in blocks; a full pipe makes the writer wait. */
export class Output {
  readonly #stream: WriteStream | NodeJS.WriteStream;
  readonly #whole: WholeFile | undefined;
  #block: Buffer[] = [];
  #length = 0;
  #error: Error | undefined;
  /** Goes on when the stream takes more. */
  #drained: (() => void) | undefined;

  /** To `file`, which only its owner may read, and which is there when all is written; or to standard output. */
  constructor(file: string | undefined) {
    if (file !== undefined && isToMake(file)) this.#whole = new WholeFile(file);
    this.#stream = file === undefined ? process.stdout : this.#open(file);
    this.#stream.on('error', (error: Error) => {
      naming(error, file ?? 'standard output');
      this.#error ??= error;
      this.#wake();
    });
    this.#stream.on('drain', () => this.#wake());
  }

  #open(file: string): WriteStream {
    return this.#whole
      ? createWriteStream(file, { fd: this.#whole.fd, flush: true })
      : createWriteStream(file, { fd: openSync(file, constants.O_WRONLY) });
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
    this.#whole?.finish();
  }
}
