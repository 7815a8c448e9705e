import { compareCells, counterBytes } from '../../store/row.js';
import { type CellChanges, type Edit, editRow } from '../../store/row-edit.js';
import { StoreError } from '../../store/store-error.js';
import type { DescriptionTable } from './descriptions.js';
import { INDEX_BYTES } from './descriptions.js';
import { valueQualifier } from './entry-cells.js';
import { POINTER_BYTES } from './large.js';
import { largeQualifiers, MASTER, Q, versionOf } from './tables.js';

/**
 * The image of the changes that a write made to a master row, from which `rowBefore` restores the row before the write
 * (docs/formats/tables.md).
 *
 *   image := group*
 *   group := kind u8 │ name │ (kind 0) old value            a cell of treeInfo that was changed
 *                           │ (kind 3)                      a cell of treeInfo that is new
 *                           │ (kind 1) olds │ news          an attribute: removed values, indexes of new values
 *                           │ (kind 2)                      a secret attribute: changed
 *   name  := length, bytes      olds := count, (index × 2 + large, length, bytes)*      news := count, index*
 *
 * Lengths, counts and indexes are LEB128. A value over 64 KiB (`large`) is represented by its length and SHA-256. The
 * version is left out because it is always one less.
 */
const INFO = 0;
const INFO_NEW = 3;
const VALUES = 1;
const SECRET = 2;

export interface OldValue {
  readonly index: number;
  /** The value, or for a large value 8 bytes of its length and its SHA-256. */
  readonly bytes: Buffer;
  readonly large: boolean;
}

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

/** Encodes the image of `changes`, which start from the master row `row`. */
export function encodeBefore(descriptions: DescriptionTable, row: Buffer, changes: CellChanges): Buffer {
  const out = new ImageWriter();
  const large = largeQualifiers(row);
  const { removed: gone, written: come, previous: was } = changes;
  let g = 0;
  let c = 0;
  let group: AttributeGroup | undefined;
  while (g < gone.length || c < come.length) {
    const d = g === gone.length ? 1 : c === come.length ? -1 : compareCells(gone[g]!, come[c]!);
    const { family, qualifier } = d < 0 ? gone[g]! : come[c]!;
    const old = d < 0 ? gone[g++]!.value : was[c++];
    if (family === MASTER.treeInfo) writeInfo(out, qualifier, old);
    else {
      const end = qualifier.length - INDEX_BYTES;
      if (!group?.is(qualifier, end)) {
        group?.write(out);
        group = new AttributeGroup(descriptions, qualifier, end);
      }
      group.add(
        qualifier.readUInt32BE(end),
        old,
        old !== undefined && large?.has(qualifier.toString('latin1')) === true,
      );
    }
  }
  group?.write(out);
  return out.bytes();
}

function writeInfo(out: ImageWriter, qualifier: Buffer, old: Buffer | undefined): void {
  // The version is always one less than in the new row.
  if (qualifier.length === Q.version.length && qualifier.equals(Q.version)) return;
  out.byte(old ? INFO : INFO_NEW);
  out.text(qualifier);
  if (old) out.text(old);
}

class AttributeGroup {
  readonly #name: Buffer;
  readonly #secret: boolean;
  readonly #old: OldValue[] = [];
  readonly #added: number[] = [];

  constructor(descriptions: DescriptionTable, qualifier: Buffer, end: number) {
    this.#name = qualifier.subarray(0, end);
    this.#secret = descriptions.intern(qualifier, 0, end).description.type.secret;
  }

  is(qualifier: Buffer, end: number): boolean {
    return this.#name.length === end && this.#name.compare(qualifier, 0, end) === 0;
  }

  add(index: number, bytes: Buffer | undefined, large: boolean): void {
    if (!bytes) this.#added.push(index);
    else this.#old.push({ index, bytes: large ? bytes.subarray(0, POINTER_BYTES) : bytes, large });
  }

  write(out: ImageWriter): void {
    out.byte(this.#secret ? SECRET : VALUES);
    out.text(this.#name);
    if (this.#secret) return;
    out.number(this.#old.length);
    for (const { index, bytes, large } of this.#old) {
      out.number(index * 2 + (large ? 1 : 0));
      out.text(bytes);
    }
    out.number(this.#added.length);
    for (const index of this.#added) out.number(index);
  }
}

class ImageWriter {
  #bytes = Buffer.allocUnsafe(256);
  #at = 0;

  byte(value: number): void {
    if (this.#at === this.#bytes.length) this.#grow(1);
    this.#bytes[this.#at++] = value;
  }

  number(value: number): void {
    let rest = value;
    while (rest > 0x7f) {
      this.byte((rest % 0x80) | 0x80);
      rest = Math.floor(rest / 0x80);
    }
    this.byte(rest);
  }

  text(value: Buffer): void {
    this.number(value.length);
    if (this.#at + value.length > this.#bytes.length) this.#grow(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  #grow(by: number): void {
    this.#bytes = Buffer.concat([this.#bytes.subarray(0, this.#at)], Math.max(this.#bytes.length * 2, this.#at + by));
  }

  /** Returns a view of the buffer. Its spare capacity is kept only as long as a batch of plans. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#at);
  }
}

/** Decodes an image. Throws `corrupt` for malformed bytes. */
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
    else throw new StoreError('corrupt', `a before-image has a group of kind ${kind}`);
  }
  return { info, attributes };
}

function oldAttribute(description: string, input: ImageReader): OldAttribute {
  const old: OldValue[] = [];
  for (let n = input.number(); n > 0; n--) {
    const number = input.number();
    old.push({ index: Math.floor(number / 2), large: number % 2 === 1, bytes: input.text() });
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
    if (value === undefined) throw new StoreError('corrupt', `a before-image is cut at offset ${this.#bytes.length}`);
    return value;
  }

  /** Reads a LEB128 number of at most 2⁵³. Each step consumes a byte, so a corrupt count ends with the image. */
  number(): number {
    let value = 0;
    for (let by = 1; ; by *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * by;
      if (byte <= 0x7f && value <= Number.MAX_SAFE_INTEGER) return value;
      if (by > 2 ** 42) throw new StoreError('corrupt', 'a before-image has a number that is too long');
    }
  }

  text(): Buffer {
    const length = this.number();
    const start = this.#at;
    if (length > this.#bytes.length - start)
      throw new StoreError('corrupt', `a before-image is cut at offset ${this.#bytes.length}`);
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
