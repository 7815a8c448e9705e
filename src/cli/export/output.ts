import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';

const BLOCK = 64 * 1024;

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
    this.#stream = file === undefined ? process.stdout : createWriteStream(file, { mode: 0o600 });
    this.#stream.on('error', (error: Error) => {
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
