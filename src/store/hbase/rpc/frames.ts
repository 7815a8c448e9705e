import { StoreError } from '../../store-error.js';

/** Longest frame taken, bytes. Servers answer with at most 100 MB of cells (`hbase.server.scanner.max.result.size`). */
export const MAX_FRAME = 256 * 1024 * 1024;

/** How an HTTP server begins its answer, read as the length of a frame. */
const HTTP = Buffer.from('HTTP').readUInt32BE();

/** Cuts a stream of bytes into frames: length u32, then so many bytes. Memory is held only for bytes that came. */
export class FrameSplitter {
  readonly #onFrame: (frame: Buffer) => void;
  #parts: Buffer[] = [];
  #have = 0;
  /** Bytes needed before anything can be cut: 4, or a frame with its length. */
  #need = 4;

  constructor(onFrame: (frame: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Throws `corrupt` for a frame longer than `MAX_FRAME`; nothing more may be pushed then. Frames are views. */
  push(bytes: Buffer): void {
    this.#parts.push(bytes);
    this.#have += bytes.length;
    if (this.#have < this.#need) return;
    const all = this.#parts.length === 1 ? bytes : Buffer.concat(this.#parts, this.#have);
    let at = 0;
    this.#need = 4;
    while (all.length - at >= 4) {
      const length = all.readUInt32BE(at);
      if (length === HTTP) throw new StoreError('corrupt', "it speaks HTTP: this is another port than HBase's RPC");
      if (length > MAX_FRAME) throw new StoreError('corrupt', `frame of ${length} bytes; ${MAX_FRAME} is the most`);
      if (all.length - at - 4 < length) {
        this.#need = 4 + length;
        break;
      }
      this.#onFrame(all.subarray(at + 4, at + 4 + length));
      at += 4 + length;
    }
    this.#have = all.length - at;
    this.#parts = this.#have > 0 ? [all.subarray(at)] : [];
  }
}
