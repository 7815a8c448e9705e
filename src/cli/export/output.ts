import { once } from 'node:events';
import { constants, createWriteStream, openSync, statSync, type WriteStream } from 'node:fs';
import { AtomicFile } from '../atomic-file.js';

const BLOCK_BYTES = 64 * 1024;

/** Adds the file name, which system calls on open files leave out. */
function withFileName(error: unknown, file: string): unknown {
  if (error instanceof Error && 'syscall' in error) (error as NodeJS.ErrnoException).path ??= file;
  return error;
}

/** Whether the file is created or replaced. Devices and pipes are written to directly. */
function isReplaceable(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? true;
}

/** Writes to a file or to standard output, in blocks. A full pipe makes the caller wait. */
export class OutputStream {
  readonly #stream: WriteStream | NodeJS.WriteStream;
  readonly #atomicFile: AtomicFile | undefined;
  readonly #fileName: string;
  #blockChunks: Buffer[] = [];
  #blockLength = 0;
  #error: Error | undefined;
  /** Resolves the wait for the stream to drain. */
  #resolveDrain: (() => void) | undefined;
  readonly #onError = (error: Error): void => {
    withFileName(error, this.#fileName);
    this.#error ??= error;
    this.#signalDrain();
  };
  readonly #signalDrain = (): void => {
    this.#resolveDrain?.();
    this.#resolveDrain = undefined;
  };

  /** `file` appears only when it is complete, and is readable by its owner only. Undefined: standard output. */
  constructor(file: string | undefined) {
    this.#fileName = file ?? 'standard output';
    if (file !== undefined && isReplaceable(file)) this.#atomicFile = new AtomicFile(file);
    this.#stream = file === undefined ? process.stdout : this.#openStream(file);
    this.#stream.on('error', this.#onError);
    this.#stream.on('drain', this.#signalDrain);
  }

  #openStream(file: string): WriteStream {
    return this.#atomicFile
      ? createWriteStream(file, { fd: this.#atomicFile.fd, flush: true })
      : createWriteStream(file, { fd: openSync(file, constants.O_WRONLY) });
  }

  #waitForDrain(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolveDrain = resolve;
    });
  }

  write(bytes: Buffer): Promise<void> | undefined {
    this.#blockChunks.push(bytes);
    this.#blockLength += bytes.length;
    return this.#blockLength < BLOCK_BYTES ? undefined : this.#flush();
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#blockChunks, this.#blockLength);
    this.#blockChunks = [];
    this.#blockLength = 0;
    if (!this.#stream.write(bytes) && !this.#error) await this.#waitForDrain();
    if (this.#error) throw this.#error;
  }

  async end(): Promise<void> {
    await this.#flush();
    if (this.#stream === process.stdout) {
      this.#stream.off('error', this.#onError);
      this.#stream.off('drain', this.#signalDrain);
      return;
    }
    this.#stream.end();
    if (!this.#stream.closed) await once(this.#stream, 'close');
    if (this.#error) throw this.#error;
    this.#atomicFile?.finish();
  }
}
