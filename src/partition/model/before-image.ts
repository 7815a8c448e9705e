import { compareCells } from '../../store/row.js';
import type { CellChanges } from '../../store/row-edit.js';
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
  /** The value, or for a large value 8 bytes of its length and its SHA-256. */
  readonly bytes: Buffer;
  readonly large: boolean;
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
