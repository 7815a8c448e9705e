import { createHmac, hash, pbkdf2Sync, scryptSync } from 'node:crypto';
import { encode64, type MemoryHardSettings, memoryHardSettings } from './forms.js';

// yescrypt (`$y$`), after Solar Designer's specification of version 1.1.0 (https://www.openwall.com/yescrypt/), with
// the parameters of libxcrypt: YESCRYPT_RW_DEFAULTS, one thread, no ROM. A block has 64 bytes, which are 16 words of 32
// bits.

const BLOCK_WORDS = 16;
const DIGEST_BYTES = 32;
/** Rounds of pwxform, and lanes of a block: each lane is two 64-bit integers, low word first. */
const ROUND_COUNT = 6;
const LANE_WORDS = 4;
/** Words of one S-box: 256 entries of one lane. */
const S_BOX_WORDS = 256 * LANE_WORDS;
/** Selects the byte offset of an entry of an S-box. */
const S_BOX_MASK = 255 * LANE_WORDS * 4;
/** A password is hashed beforehand with N / 64, when N × r has at least this product and N this value. */
const PREHASH_MIN_PRODUCT = 0x20000;
const PREHASH_MIN_N = 0x100;
const PREHASH_DIVISOR = 64;

/** Mixes the block of `words` that begins at `start`. */
type MixBlock = (words: Int32Array, start: number) => void;

const salsaState = new Int32Array(BLOCK_WORDS);

function quarterRound(a: number, b: number, c: number, d: number): void {
  const x = salsaState;
  const rotate = (word: number, bits: number): number => (word << bits) | (word >>> (32 - bits));
  x[b]! ^= rotate(x[a]! + x[d]!, 7);
  x[c]! ^= rotate(x[b]! + x[a]!, 9);
  x[d]! ^= rotate(x[c]! + x[b]!, 13);
  x[a]! ^= rotate(x[d]! + x[c]!, 18);
}

/** The word of a block in memory at which the word `i` of Salsa20 stands: the specification's order for SIMD. */
const shuffled = Uint8Array.from({ length: BLOCK_WORDS }, (_, i) => (i * 13) % BLOCK_WORDS);

/** Applies the Salsa20 core with two rounds for each of `doubleRounds` to a block, whose words are shuffled. */
function salsa20(words: Int32Array, start: number, doubleRounds: number): void {
  for (let i = 0; i < BLOCK_WORDS; i++) salsaState[i] = words[start + shuffled[i]!]!;
  for (let round = 0; round < doubleRounds; round++) {
    for (let i = 0; i < 4; i++)
      quarterRound(5 * i, (5 * i + 4) % BLOCK_WORDS, (5 * i + 8) % BLOCK_WORDS, (5 * i + 12) % BLOCK_WORDS);
    for (let i = 0; i < 4; i++)
      quarterRound(5 * i, 4 * i + ((i + 1) % 4), 4 * i + ((i + 2) % 4), 4 * i + ((i + 3) % 4));
  }
  for (let i = 0; i < BLOCK_WORDS; i++) words[start + shuffled[i]!]! += salsaState[i]!;
}

/** The blocks that are mixed. */
class Blocks {
  readonly words: Int32Array;

  constructor(bytes: Buffer) {
    this.words = new Int32Array(bytes.length / 4);
    this.#eachWord((index, offset) => {
      this.words[index] = bytes.readInt32LE(offset);
    });
  }

  writeTo(bytes: Buffer): void {
    this.#eachWord((index, offset) => bytes.writeInt32LE(this.words[index]!, offset));
  }

  #eachWord(visit: (index: number, byteOffset: number) => void): void {
    for (let i = 0; i < this.words.length; i++) {
      const start = i - (i % BLOCK_WORDS);
      visit(start + shuffled[i % BLOCK_WORDS]!, 4 * i);
    }
  }

  /** Offset of the last block. */
  get last(): number {
    return this.words.length - BLOCK_WORDS;
  }

  /** The low word of the last block: Integerify of the specification, for tables of fewer than 2³² rows. */
  get integer(): number {
    return this.words[this.last]!;
  }

  /** Mixes all words with those of the table from `start` on. */
  xorRow(table: Int32Array, start: number): void {
    const { words } = this;
    for (let i = 0; i < words.length; i++) words[i]! ^= table[start + i]!;
  }

  /** Mixes each block after the one before it, the last of which is the one before the first. */
  mix(mixBlock: MixBlock): void {
    const { words } = this;
    let previous = this.last;
    for (let start = 0; start < words.length; start += BLOCK_WORDS) {
      for (let i = 0; i < BLOCK_WORDS; i++) words[start + i]! ^= words[previous + i]!;
      mixBlock(words, start);
      previous = start;
    }
  }
}

/** Returns the high word of the product of two words, all of them unsigned. */
function highProduct(a: number, b: number): number {
  // The difference is a multiple of 2³² but for the rounding of the product, which is below 2¹¹.
  return (((a >>> 0) * (b >>> 0) - (Math.imul(a, b) >>> 0)) / 0x1_0000_0000 + 0.5) | 0;
}

/** Returns the carry of the sum of two words, all of them unsigned. */
function carry(a: number, b: number, sum: number): number {
  return ((a & b) | ((a | b) & ~sum)) >>> 31;
}

/** Mixes blocks with pwxform. The S-boxes change as they are used. */
class ParallelWideTransform {
  readonly #boxes: Int32Array;
  /** Offsets of the three S-boxes, and of the entry of the third that is written next. */
  #first = 2 * S_BOX_WORDS;
  #second = S_BOX_WORDS;
  #third = 0;
  #written = 0;

  constructor(boxes: Int32Array) {
    this.#boxes = boxes;
  }

  mix(blocks: Blocks): void {
    blocks.mix(this.#mixBlock);
    salsa20(blocks.words, blocks.last, 1);
  }

  readonly #mixBlock = (words: Int32Array, start: number): void => {
    const boxes = this.#boxes;
    const [first, second, third] = [this.#first, this.#second, this.#third];
    let written = third + this.#written;
    for (let round = 0; round < ROUND_COUNT; round++) {
      const isWritten = round > 0 && round < ROUND_COUNT - 1;
      for (let lane = start; lane < start + BLOCK_WORDS; lane += LANE_WORDS) {
        let added = first + ((words[lane]! & S_BOX_MASK) >> 2);
        let xored = second + ((words[lane + 1]! & S_BOX_MASK) >> 2);
        for (let at = lane; at < lane + LANE_WORDS; at += 2, added += 2, xored += 2) {
          const low = words[at]!;
          const high = words[at + 1]!;
          const product = Math.imul(low, high);
          const sum = (product + boxes[added]!) | 0;
          const sumHigh = highProduct(low, high) + boxes[added + 1]! + carry(product, boxes[added]!, sum);
          words[at] = sum ^ boxes[xored]!;
          words[at + 1] = sumHigh ^ boxes[xored + 1]!;
          if (isWritten) {
            boxes[written++] = words[at]!;
            boxes[written++] = words[at + 1]!;
          }
        }
      }
    }
    this.#first = third;
    this.#second = first;
    this.#third = second;
    this.#written = (written - third) % S_BOX_WORDS;
  };
}

/** Fills the table of `rowCount` rows from the blocks. `readsBack`: whether rows are mixed with earlier rows. */
function fillTable(blocks: Blocks, table: Int32Array, rowCount: number, readsBack: boolean, mix: () => void): void {
  const { words } = blocks;
  for (let row = 0; row < rowCount; row++) {
    table.set(words, row * words.length);
    if (readsBack && row > 1) {
      // The greatest power of two that is at most `row`.
      const span = 1 << (31 - Math.clz32(row));
      const earlier = (blocks.integer & (span - 1)) + row - span;
      blocks.xorRow(table, earlier * words.length);
    }
    mix();
  }
}

/** Mixes the blocks `count` times with rows of the table, which are replaced. */
function mixWithTable(blocks: Blocks, table: Int32Array, rowCount: number, count: number, mix: () => void): void {
  const { words } = blocks;
  for (let i = 0; i < count; i++) {
    const start = (blocks.integer & (rowCount - 1)) * words.length;
    blocks.xorRow(table, start);
    table.set(words, start);
    mix();
  }
}

/** Mixes `bytes` in place. Returns the key of the last step: the HMAC of `key`. */
function mixMemory(bytes: Buffer, rowCount: number, key: Buffer): Buffer {
  const firstBytes = bytes.subarray(0, 128);
  const sBoxBlocks = new Blocks(firstBytes);
  const sBoxes = new Int32Array(3 * S_BOX_WORDS);
  fillTable(sBoxBlocks, sBoxes, sBoxes.length / sBoxBlocks.words.length, false, () =>
    sBoxBlocks.mix((words, start) => salsa20(words, start, 4)),
  );
  sBoxBlocks.writeTo(firstBytes);
  const lastKey = hmac(bytes.subarray(-64), key);
  const transform = new ParallelWideTransform(sBoxes);
  const blocks = new Blocks(bytes);
  const mix = (): void => transform.mix(blocks);
  const table = new Int32Array(rowCount * blocks.words.length);
  fillTable(blocks, table, rowCount, true, mix);
  // A third of the rows, rounded up to an even number.
  mixWithTable(blocks, table, rowCount, 2 * Math.ceil(Math.ceil(rowCount / 3) / 2), mix);
  blocks.writeTo(bytes);
  return lastKey;
}

function hmac(key: Buffer | string, message: Buffer | string): Buffer {
  return createHmac('sha256', key).update(message).digest();
}

/** Returns the hash before the steps of SCRAM. `purpose`: the HMAC key of the password. */
function deriveKey(password: Buffer, { n, r, salt }: MemoryHardSettings, purpose: string): Buffer {
  const key = hmac(purpose, password);
  const bytes = pbkdf2Sync(key, salt, 1, 128 * r, 'sha256');
  const lastKey = mixMemory(bytes, n, Buffer.from(bytes.subarray(0, DIGEST_BYTES)));
  return pbkdf2Sync(lastKey, bytes, 1, DIGEST_BYTES, 'sha256');
}

function yescryptHash(password: Buffer, settings: MemoryHardSettings): Buffer {
  const { n, r } = settings;
  const isPrehashed = n >= PREHASH_MIN_N && n * r >= PREHASH_MIN_PRODUCT;
  const firstSettings = { ...settings, n: n / PREHASH_DIVISOR };
  const input = isPrehashed ? deriveKey(password, firstSettings, 'yescrypt-prehash') : password;
  // ClientKey and StoredKey of SCRAM (RFC 5802 §3).
  return hash('sha256', hmac(deriveKey(input, settings, 'yescrypt'), 'Client Key'), 'buffer');
}

const digestOrder = [...Array.from({ length: 10 }, (_, i) => [3 * i + 2, 3 * i + 1, 3 * i]), [31, 30]];

/**
 * Returns the crypt text of `key` with the settings of `storedValue`, which is of yescrypt (`$y$`) or scrypt (`$7$`).
 * Undefined for other texts. Takes up to seconds, and must not run in the main thread.
 */
export function memoryHardCrypt(storedValue: string, key: Buffer): string | undefined {
  const settings = memoryHardSettings(storedValue);
  if (!settings) return undefined;
  const { n, r, p, salt, memoryKiB } = settings;
  const digest = storedValue.startsWith('$y$')
    ? yescryptHash(key, settings)
    : scryptSync(key, salt, DIGEST_BYTES, { N: n, r, p, maxmem: 2048 * memoryKiB + 1_048_576 });
  return storedValue.slice(0, storedValue.lastIndexOf('$') + 1) + encode64(digest, digestOrder);
}
