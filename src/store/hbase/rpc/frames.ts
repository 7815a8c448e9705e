import { StoreError } from '../../store-error.js';

/** Maximum length of a frame, bytes. Servers answer with at most 100 MB (`hbase.server.scanner.max.result.size`). */
export const MAX_FRAME = 256 * 1024 * 1024;

/** The first four bytes of an HTTP response, read as the length of a frame. */
const HTTP_LENGTH = Buffer.from('HTTP').readUInt32BE();

/** Splits a byte stream into frames: length u32, then as many bytes. Memory is used only for bytes received. */
export class FrameSplitter {
  readonly #onFrame: (frame: Buffer) => void;
  #bufferedChunks: Buffer[] = [];
  #bufferedBytes = 0;
  /** Number of bytes that must be buffered before splitting continues: 4 for a length, or a length with its frame. */
  #neededBytes = 4;

  constructor(onFrame: (frame: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Throws `corrupt` for a frame over `MAX_FRAME`, `format` for HTTP; then nothing may be pushed. Frames are views. */
  push(bytes: Buffer): void {
    this.#bufferedChunks.push(bytes);
    this.#bufferedBytes += bytes.length;
    if (this.#bufferedBytes < this.#neededBytes) return;
    const received =
      this.#bufferedChunks.length === 1 ? bytes : Buffer.concat(this.#bufferedChunks, this.#bufferedBytes);
    let offset = 0;
    this.#neededBytes = 4;
    while (received.length - offset >= 4) {
      const length = received.readUInt32BE(offset);
      if (length === HTTP_LENGTH)
        throw new StoreError('format', "it speaks HTTP: this is another port than HBase's RPC");
      if (length > MAX_FRAME) throw new StoreError('corrupt', `frame of ${length} bytes; ${MAX_FRAME} is the most`);
      if (received.length - offset - 4 < length) {
        this.#neededBytes = 4 + length;
        break;
      }
      this.#onFrame(received.subarray(offset + 4, offset + 4 + length));
      offset += 4 + length;
    }
    this.#bufferedBytes = received.length - offset;
    this.#bufferedChunks = this.#bufferedBytes > 0 ? [received.subarray(offset)] : [];
  }
}
