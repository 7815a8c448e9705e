import type { OldValue } from '../../src/partition/model/before-image.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, Q, versionOf } from '../../src/partition/model/tables.js';
import { compareCells, counterBytes } from '../../src/store/row.js';
import { type Edit, editRow } from '../../src/store/row-edit.js';

/** Kinds of groups (docs/formats/tables.md). */
const INFO = 0;
const INFO_NEW = 3;
const VALUES = 1;
const SECRET = 2;

export interface OldAttribute {
  /** Description as stored. */
  readonly description: string;
  /** True for a secret attribute. The image records only that it changed. */
  readonly secret: boolean;
  /** Values that the change removed, or replaced under the same value index. */
  readonly old: readonly OldValue[];
  readonly added: readonly number[];
}

export interface BeforeImage {
  /** Old values of changed treeInfo cells by qualifier; undefined for a new cell. */
  readonly info: ReadonlyMap<string, Buffer | undefined>;
  readonly attributes: readonly OldAttribute[];
}

/** Decodes an image. Throws for malformed bytes. */
export function decodeBefore(bytes: Buffer): BeforeImage {
  const input = new ImageReader(bytes);
  const info = new Map<string, Buffer | undefined>();
  const attributes: OldAttribute[] = [];
  while (!input.isAtEnd) {
    const kind = input.byte();
    const name = input.text().toString('latin1');
    if (kind === INFO) info.set(name, input.text());
    else if (kind === INFO_NEW) info.set(name, undefined);
    else if (kind === SECRET) attributes.push({ description: name, secret: true, old: [], added: [] });
    else if (kind === VALUES) attributes.push(oldAttribute(name, input));
    else throw new Error(`a before-image has a group of kind ${kind}`);
  }
  return { info, attributes };
}

function oldAttribute(description: string, input: ImageReader): OldAttribute {
  const old: OldValue[] = [];
  for (let n = input.number(); n > 0; n--) {
    const number = input.number();
    old.push({ index: Math.floor(number / 2), isLarge: number % 2 === 1, bytes: input.text() });
  }
  const added: number[] = [];
  for (let n = input.number(); n > 0; n--) added.push(input.number());
  return { description, secret: false, old, added };
}

class ImageReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.#at++];
    if (value === undefined) throw new Error(`a before-image is cut at offset ${this.#bytes.length}`);
    return value;
  }

  /** Reads a LEB128 number of at most 2⁵³. Each step consumes a byte, so a corrupt count ends with the image. */
  number(): number {
    let value = 0;
    for (let by = 1; ; by *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * by;
      if (byte <= 0x7f && value <= Number.MAX_SAFE_INTEGER) return value;
      if (by > 2 ** 42) throw new Error('a before-image has a number that is too long');
    }
  }

  text(): Buffer {
    const length = this.number();
    const start = this.#at;
    if (length > this.#bytes.length - start) throw new Error(`a before-image is cut at offset ${this.#bytes.length}`);
    this.#at += length;
    return this.#bytes.subarray(start, this.#at);
  }
}

/**
 * Returns the master row before a change of the kind `modify`, `rename` or (with the row in table `deleted`) `restore`.
 * Secret values stay as in `after`, and large values are pointers to chunks that may be gone.
 */
export function rowBefore(after: Buffer, { info, attributes }: BeforeImage): Buffer {
  const edits: Edit[] = [];
  for (const [name, value] of info)
    edits.push({ family: MASTER.treeInfo, qualifier: Buffer.from(name, 'latin1'), value });
  const version = counterBytes(versionOf(after) - 1n);
  edits.push({ family: MASTER.treeInfo, qualifier: Q.version, value: version });
  for (const { description, old, added } of attributes) {
    const cell = (index: number, value: Buffer | undefined): Edit => ({
      family: MASTER.upAttributes,
      qualifier: valueQualifier(description, index),
      value,
    });
    for (const { index, bytes } of old) edits.push(cell(index, bytes));
    for (const index of added) edits.push(cell(index, undefined));
  }
  return editRow(after, edits.sort(compareCells)) ?? Buffer.alloc(0);
}
