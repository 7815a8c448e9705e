import { compareCells } from '../../store/row.js';
import type { CellChanges } from '../../store/row-edit.js';
import { StoreError } from '../../store/store-error.js';
import type { DescriptionTable } from './descriptions.js';
import { INDEX_BYTES } from './descriptions.js';
import { POINTER_BYTES } from './large.js';
import { largeQualifiers, MASTER, Q } from './tables.js';

/**
 * The image of the changes that a write made to a master row, from which the row before the write can be
 * restored (docs/formats/tables.md).
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
  /** The value; for a large value 8 bytes of length and its SHA-256. */
  readonly bytes: Buffer;
  readonly isLarge: boolean;
}

export interface OldAttribute {
  /** Description as stored. */
  readonly description: string;
  /** Whether the attribute is secret. Then the image records only that it changed. */
  readonly isSecret: boolean;
  /** Values that the change removed, or replaced under the same value index. */
  readonly old: readonly OldValue[];
  readonly added: readonly number[];
}

export interface BeforeImage {
  /** Old values of changed treeInfo cells by qualifier; undefined for a new cell. */
  readonly info: ReadonlyMap<string, Buffer | undefined>;
  readonly attributes: readonly OldAttribute[];
}

/** Encodes the image of a change. `row`: the master row before the change. */
export function encodeBeforeImage(descriptions: DescriptionTable, row: Buffer, changes: CellChanges): Buffer {
  const out = new ImageWriter();
  const largeValueQualifiers = largeQualifiers(row);
  const { removedCells: removals, writtenCells: writes, previousValues: oldValues } = changes;
  let r = 0;
  let w = 0;
  let group: AttributeGroup | undefined;
  while (r < removals.length || w < writes.length) {
    const order = r === removals.length ? 1 : w === writes.length ? -1 : compareCells(removals[r]!, writes[w]!);
    const { family, qualifier } = order < 0 ? removals[r]! : writes[w]!;
    const oldValue = order < 0 ? removals[r++]!.value : oldValues[w++];
    if (family === MASTER.treeInfo) writeInfo(out, qualifier, oldValue);
    else {
      const end = qualifier.length - INDEX_BYTES;
      if (!group?.includesQualifier(qualifier, end)) {
        group?.write(out);
        group = new AttributeGroup(descriptions, qualifier, end);
      }
      group.add(
        qualifier.readUInt32BE(end),
        oldValue,
        oldValue !== undefined && largeValueQualifiers?.has(qualifier.toString('latin1')) === true,
      );
    }
  }
  group?.write(out);
  return out.bytes();
}

function writeInfo(out: ImageWriter, qualifier: Buffer, oldValue: Buffer | undefined): void {
  // The version is left out: it is always one less than in the new row.
  if (qualifier.length === Q.version.length && qualifier.equals(Q.version)) return;
  out.byte(oldValue ? INFO : INFO_NEW);
  out.text(qualifier);
  if (oldValue) out.text(oldValue);
}

class AttributeGroup {
  readonly #descriptionBytes: Buffer;
  readonly #isSecret: boolean;
  readonly #oldValues: OldValue[] = [];
  readonly #newIndexes: number[] = [];

  constructor(descriptions: DescriptionTable, qualifier: Buffer, end: number) {
    this.#descriptionBytes = qualifier.subarray(0, end);
    this.#isSecret = descriptions.intern(qualifier, 0, end).description.type.secret;
  }

  includesQualifier(qualifier: Buffer, end: number): boolean {
    return this.#descriptionBytes.length === end && this.#descriptionBytes.compare(qualifier, 0, end) === 0;
  }

  add(index: number, bytes: Buffer | undefined, isLarge: boolean): void {
    if (!bytes) this.#newIndexes.push(index);
    else this.#oldValues.push({ index, bytes: isLarge ? bytes.subarray(0, POINTER_BYTES) : bytes, isLarge });
  }

  write(out: ImageWriter): void {
    out.byte(this.#isSecret ? SECRET : VALUES);
    out.text(this.#descriptionBytes);
    if (this.#isSecret) return;
    out.number(this.#oldValues.length);
    for (const { index, bytes, isLarge } of this.#oldValues) {
      out.number(index * 2 + (isLarge ? 1 : 0));
      out.text(bytes);
    }
    out.number(this.#newIndexes.length);
    for (const index of this.#newIndexes) out.number(index);
  }
}

class ImageWriter {
  #bytes = Buffer.allocUnsafe(256);
  #length = 0;

  byte(value: number): void {
    if (this.#length === this.#bytes.length) this.#grow(1);
    this.#bytes[this.#length++] = value;
  }

  number(value: number): void {
    let remaining = value;
    while (remaining > 0x7f) {
      this.byte((remaining % 0x80) | 0x80);
      remaining = Math.floor(remaining / 0x80);
    }
    this.byte(remaining);
  }

  text(value: Buffer): void {
    this.number(value.length);
    if (this.#length + value.length > this.#bytes.length) this.#grow(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  #grow(extraBytes: number): void {
    this.#bytes = Buffer.concat(
      [this.#bytes.subarray(0, this.#length)],
      Math.max(this.#bytes.length * 2, this.#length + extraBytes),
    );
  }

  /** Returns the encoded image as a view of the buffer. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
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
    else if (kind === SECRET) attributes.push({ description: name, isSecret: true, old: [], added: [] });
    else if (kind === VALUES) attributes.push(oldAttribute(name, input));
    else throw new StoreError('corrupt', `a before-image has a group of kind ${kind}`);
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
  return { description, isSecret: false, old, added };
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
    if (value === undefined) throw this.#cutError();
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
    if (length > this.#bytes.length - start) throw this.#cutError();
    this.#at += length;
    return this.#bytes.subarray(start, this.#at);
  }

  #cutError(): StoreError {
    return new StoreError('corrupt', `a before-image is cut at offset ${this.#bytes.length}`);
  }
}
