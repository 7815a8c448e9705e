import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import type { EntryReader } from '../../partition/model/entry-reader.js';
import { attributeBytes, nameElement, writeAttributeHead } from '../../protocol/encode-entry.js';
import { OCTET_STRING } from '../../protocol/tags.js';
import { elementBytes, type Writer } from '../../protocol/writer.js';
import type { Selection } from './selection.js';
import { valuesIn, WHOLE } from './value-range.js';

/** The values of one entry that are too long for its row. To be closed. */
export interface OpenLargeValues {
  lengthOf(qualifier: Buffer): number;
  /** `lengthOf` bytes. */
  pieces(qualifier: Buffer): AsyncIterable<Buffer>;
  close(): void;
}

/** The selected values of one entry that are not in its row. */
export interface Apart {
  /** As Latin-1. */
  readonly qualifiers: ReadonlySet<string>;
  readonly values: OpenLargeValues;
}

/** By `StoredDescription.number`: descriptions as clients are shown them, with the schema's spelling of the type. */
export class ShownNames {
  readonly #names: Buffer[] = [];

  of({ number, description }: StoredDescription): Buffer {
    // Those that the table does not keep have no number of their own.
    if (number >= DescriptionTable.MAX) return nameElement(description.text);
    let name = this.#names[number];
    if (!name) {
      name = nameElement(description.text);
      this.#names[number] = name;
    }
    return name;
  }
}

/**
 * The attributes of one entry on their way out (RFC 4511 §4.5.2): measured first, then written. Nothing is allocated
 * for an attribute or for a value that is in the row.
 */
export class OutgoingAttributes {
  readonly #names: ShownNames;
  readonly #entry: EntryReader;
  #apart: Apart | undefined;
  /** Of each that goes out: its number in the entry, its values `[from, to)`, its name, bytes of its SET's content. */
  readonly #numbers: number[] = [];
  readonly #froms: number[] = [];
  readonly #tos: number[] = [];
  readonly #shown: Buffer[] = [];
  readonly #sets: number[] = [];
  #count = 0;
  #typesOnly = false;
  /** Attributes and values written. */
  #at = 0;
  #next = 0;
  /** The value that has to follow. */
  follows: Buffer | undefined;

  constructor(entry: EntryReader, names: ShownNames) {
    this.#entry = entry;
    this.#names = names;
  }

  /**
   * Takes from the entry that has been read what goes out; returns how many bytes it takes. `moreMembers`: than there
   * are in it.
   */
  select(selection: Selection, typesOnly: boolean, apart?: Apart, moreMembers = false): number {
    const { count, stored, firsts } = this.#entry;
    const { ranges } = selection;
    const cut = moreMembers ? selection.member : undefined;
    this.#apart = apart;
    this.#typesOnly = typesOnly;
    this.#at = 0;
    this.#next = -1;
    let bytes = 0;
    let taken = 0;
    for (let i = 0; i < count; i++) {
      if (!selection.takes(stored[i]!)) continue;
      let name = this.#names.of(stored[i]!);
      let from = firsts[i]!;
      let to = firsts[i + 1]!;
      const { description } = stored[i]!;
      const range = ranges?.get(description) ?? (description === cut ? WHOLE : undefined);
      if (range) {
        const part = valuesIn(range, to - from, description === cut);
        name = nameElement(description.text + part.option);
        to = from + part.to;
        from += part.from;
      }
      const set = typesOnly ? 0 : this.#valueBytes(i, from, to);
      this.#numbers[taken] = i;
      this.#froms[taken] = from;
      this.#tos[taken] = to;
      this.#shown[taken] = name;
      this.#sets[taken++] = set;
      bytes += elementBytes(attributeBytes(name, set));
    }
    this.#count = taken;
    return bytes;
  }

  #valueBytes(i: number, from: number, to: number): number {
    const { starts, ends } = this.#entry;
    let set = 0;
    for (let v = from; v < to; v++) {
      const apart = this.#apart && this.#qualifierApart(this.#apart, i, v);
      set += elementBytes(apart ? this.#apart!.values.lengthOf(apart) : ends[v]! - starts[v]!);
    }
    return set;
  }

  #qualifierApart({ qualifiers }: Apart, i: number, v: number): Buffer | undefined {
    const qualifier = this.#entry.qualifier(i, v);
    return qualifiers.has(qualifier.toString('latin1')) ? qualifier : undefined;
  }

  /** Writes all of a short entry. */
  writeAll(writer: Writer): void {
    const { row, starts, ends } = this.#entry;
    const count = this.#count;
    for (let n = 0; n < count; n++) {
      writeAttributeHead(writer, this.#shown[n]!, this.#sets[n]!);
      if (!this.#typesOnly) writer.octetStrings(OCTET_STRING, row, starts, ends, this.#froms[n]!, this.#tos[n]!);
    }
  }

  /**
   * Writes until `writer` holds some `limit` bytes, or a value `follows` that is not in the row; false when all is
   * written.
   */
  write(writer: Writer, limit: number): boolean {
    for (; this.#at < this.#count; this.#at++) {
      const i = this.#numbers[this.#at]!;
      if (this.#next < 0) {
        writeAttributeHead(writer, this.#shown[this.#at]!, this.#sets[this.#at]!);
        this.#next = this.#froms[this.#at]!;
      }
      if (this.#writeValues(writer, i, this.#tos[this.#at]!, limit)) return true;
      this.#next = -1;
    }
    return false;
  }

  /** Whether there is more. */
  #writeValues(writer: Writer, i: number, end: number, limit: number): boolean {
    const { row, starts, ends } = this.#entry;
    const apart = this.#apart;
    while (this.#next < end) {
      const from = this.#next;
      this.follows = apart && this.#qualifierApart(apart, i, from);
      this.#next = this.follows ? from + 1 : this.#fits(from, end, limit - writer.length);
      if (this.follows) writer.header(OCTET_STRING, apart!.values.lengthOf(this.follows));
      else writer.octetStrings(OCTET_STRING, row, starts, ends, from, this.#next);
      if (this.follows || writer.length >= limit) return true;
    }
    return false;
  }

  /** Up to which value it takes about so many bytes. */
  #fits(from: number, end: number, bytes: number): number {
    if (this.#apart) return from + 1;
    const { starts, ends } = this.#entry;
    let to = from + 1;
    while (to < end && ends[to]! - starts[from]! < bytes) to++;
    return to;
  }
}
