import { Base64Decoder } from '../bytes/base64.js';
import { CR_ALONE } from '../bytes/text-form.js';

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const HASH = 0x23;
const COLON = 0x3a;
const LESS = 0x3c;
const CR_BYTES = Buffer.from([CR]);
const LF_BYTES = Buffer.from([LF]);

/** How much of a record whose text is not kept is there for the rejects file. */
export const KEPT = 64 * 1024;

/** A line of a long record whose value was taken as it came. In the text it has only its name and `::`. */
export interface LongLine {
  /** Where it begins in the text. */
  readonly at: number;
  /** Physical lines that it has besides the one in the text. */
  readonly folds: number;
  /** What is wrong with it, where it is a text. */
  readonly value: Buffer | string;
}

/**
 * A record that is too long to be kept as text: its values that take more than `lineBytes` are decoded as they come,
 * each into one piece of memory, and what is left is a text that `Lines` can read.
 */
export class LongRecord {
  readonly lines: LongLine[] = [];
  /** Line ends, and bytes, so far. */
  lineEnds = 0;
  bytes = 0;
  /** The blank line behind it has been passed. */
  ended = false;
  readonly #lineBytes: number;
  readonly #maxBytes: number;
  readonly #text: GrowingBytes;
  #head: Buffer = Buffer.alloc(0);
  #tail: Buffer = Buffer.alloc(0);
  /** Where the line in hand begins in the text, folds included; -1: none yet. */
  #line = -1;
  /** How often it was folded. */
  #folds = 0;
  /** It is no attribute, or a URL. */
  #stays = false;
  #value: LongValue | undefined;
  /** At the beginning of a physical line. */
  #begins = true;
  /** A CR came that may be of a line's end. */
  #cr = false;

  /** `maxBytes`: of the record. */
  constructor(lineBytes: number, maxBytes: number) {
    this.#lineBytes = lineBytes;
    this.#maxBytes = maxBytes;
    this.#text = new GrowingBytes(maxBytes);
  }

  get text(): Buffer {
    return this.#text.taken();
  }

  /** Its beginning as it stands in the file. */
  get head(): Buffer {
    return this.#head;
  }

  /** The last two bytes. */
  get tail(): Buffer {
    return this.#tail;
  }

  /** Takes what belongs to the record; gives the number of bytes taken. */
  push(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && !this.ended) {
      const found = chunk.indexOf(LF, at);
      const end = found < 0 ? chunk.length : found;
      this.#takeContent(chunk.subarray(at, end));
      if (found >= 0) this.#endLine();
      at = found < 0 ? end : end + 1;
    }
    this.bytes += at;
    const taken = chunk.subarray(0, at);
    if (this.#head.length < KEPT) this.#head = Buffer.concat([this.#head, taken]).subarray(0, KEPT);
    this.#tail = Buffer.concat([this.#tail, taken.subarray(-2)]).subarray(-2);
    return at;
  }

  /** The file ends here. */
  end(): void {
    this.#endLogicalLine();
  }

  #takeContent(part: Buffer): void {
    if (part.length === 0) return;
    if (this.#cr) this.#take(CR_BYTES);
    this.#cr = part[part.length - 1] === CR;
    const content = this.#cr ? part.subarray(0, part.length - 1) : part;
    if (content.length > 0) this.#take(content);
  }

  /** Part of a physical line, its end left out. */
  #take(part: Buffer): void {
    let from = 0;
    if (this.#begins) {
      this.#begins = false;
      if (part[0] !== SPACE || this.#line < 0) this.#beginLogicalLine();
      else {
        this.#folds++;
        if (this.#value) from = 1;
      }
    }
    if (this.#value) this.#value.push(part.subarray(from));
    else {
      this.#text.push(part);
      if (!this.#stays && this.#text.length - this.#line > this.#lineBytes) this.#takeApart();
    }
  }

  #endLine(): void {
    const wasCr = this.#cr;
    this.#cr = false;
    this.lineEnds++;
    if (this.#begins) {
      this.ended = this.#line >= 0;
      this.#endLogicalLine();
    }
    this.#begins = true;
    if (this.#value) return;
    if (wasCr) this.#text.push(CR_BYTES);
    this.#text.push(LF_BYTES);
  }

  #beginLogicalLine(): void {
    this.#endLogicalLine();
    this.#line = this.#text.length;
    this.#folds = 0;
    this.#stays = false;
  }

  #endLogicalLine(): void {
    if (!this.#value) return;
    this.lines.push({ at: this.#line, folds: this.#folds, value: this.#value.end() });
    this.#text.push(LF_BYTES);
    this.#value = undefined;
  }

  /** The value of the line in hand goes on by itself. */
  #takeApart(): void {
    const line = unfolded(this.#text.taken().subarray(this.#line));
    const colon = line.indexOf(COLON);
    this.#stays = colon < 0 || line[0] === HASH || line[0] === SPACE || line[colon + 1] === LESS;
    if (this.#stays) return;
    const isBase64 = line[colon + 1] === COLON;
    this.#value = new LongValue(isBase64, this.#maxBytes);
    this.#value.push(line.subarray(colon + (isBase64 ? 2 : 1)));
    this.#text.length = this.#line;
    this.#text.push(line.subarray(0, colon));
    this.#text.push(NO_VALUE);
  }
}

const NO_VALUE = Buffer.from('::');

/** The physical lines in `text` as one. */
function unfolded(text: Buffer): Buffer {
  return Buffer.from(text.toString('latin1').replaceAll(/\r?\n /g, ''), 'latin1');
}

/** A value that comes in parts. */
class LongValue {
  readonly #decoder: Base64Decoder | undefined;
  readonly #bytes: GrowingBytes;
  /** Only spaces came so far. */
  #blank = true;

  constructor(isBase64: boolean, maxBytes: number) {
    this.#decoder = isBase64 ? new Base64Decoder() : undefined;
    this.#bytes = new GrowingBytes(maxBytes);
  }

  push(part: Buffer): void {
    let from = 0;
    if (this.#blank) {
      while (part[from] === SPACE) from++;
      this.#blank = from === part.length;
    }
    const text = part.subarray(from);
    this.#bytes.push(this.#decoder ? this.#decoder.push(text) : text);
  }

  /** What is wrong with it comes as a text. */
  end(): Buffer | string {
    if (this.#decoder) return this.#decoder.end() ?? this.#bytes.finished();
    // Those of line ends are not among it.
    return this.#bytes.taken().includes(CR) ? CR_ALONE : this.#bytes.finished();
  }
}

/**
 * Memory for so much is taken as it is needed; more is taken at once: the system gives it page by page, as it is
 * written.
 */
const STEPS = [1024 * 1024, 16 * 1024 * 1024];

/** Bytes one after another in one piece of memory, of which hardly more is in use than there are bytes. */
class GrowingBytes {
  readonly #max: number;
  #bytes: Buffer = Buffer.alloc(0);
  length = 0;

  constructor(max: number) {
    this.#max = max;
  }

  push(part: Buffer): void {
    const needed = this.length + part.length;
    if (needed > this.#bytes.length) {
      const room = STEPS.find((step) => step >= needed) ?? Math.max(this.#max, needed);
      const larger = Buffer.allocUnsafeSlow(room);
      this.taken().copy(larger);
      this.#bytes = larger;
    }
    part.copy(this.#bytes, this.length);
    this.length = needed;
  }

  /** What is there, until the next `push`. */
  taken(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** All of it: in memory of its own size where copying costs little. */
  finished(): Buffer {
    return this.#bytes.length > STEPS[1]! ? this.taken() : Buffer.from(this.taken());
  }
}
