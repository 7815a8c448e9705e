import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import type { EntryReader } from '../../partition/model/entry-reader.js';
import { attributeBytes, nameElement, writeAttributeHead } from '../../protocol/encode-entry.js';
import { OCTET_STRING } from '../../protocol/tags.js';
import { elementBytes, type Writer } from '../../protocol/writer.js';
import type { Selection } from './selection.js';
import { ALL_VALUES, selectRange } from './value-range.js';

/** The values of one entry that are too long for its row. Must be closed. */
export interface OpenLargeValues {
  lengthOf(qualifier: Buffer): number;
  /** Returns the bytes of the value in pieces. */
  pieces(qualifier: Buffer): AsyncIterable<Buffer>;
  close(): void;
}

/** The selected values of one entry that are not in its row. */
export interface SelectedLarge {
  /** Qualifiers as Latin-1. */
  readonly qualifiers: ReadonlySet<string>;
  readonly values: OpenLargeValues;
}

/** Cache of encoded attribute descriptions by `StoredDescription.number`, with the schema's spelling of the type. */
export class ShownNames {
  readonly #names: Buffer[] = [];

  of({ number, description }: StoredDescription): Buffer {
    // Descriptions that the table does not keep share one number.
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
 * Encodes the selected attributes of one entry (RFC 4511 §4.5.2): first measures, then writes. Allocates nothing per
 * attribute or per value in the row.
 */
export class OutgoingAttributes {
  readonly #names: ShownNames;
  readonly #entry: EntryReader;
  #large: SelectedLarge | undefined;
  /** Per selected attribute: index in the entry, values `[from, to)`, encoded name, content length of its SET. */
  readonly #indexes: number[] = [];
  readonly #firstValues: number[] = [];
  readonly #endValues: number[] = [];
  readonly #encodedNames: Buffer[] = [];
  readonly #setLengths: number[] = [];
  #count = 0;
  #typesOnly = false;
  /** Position of `write`: index of the selected attribute and of the next value. */
  #position = 0;
  #nextValue = 0;
  /** Qualifier of the large value that the caller has to write next. */
  nextLarge: Buffer | undefined;

  constructor(entry: EntryReader, names: ShownNames) {
    this.#entry = entry;
    this.#names = names;
  }

  /** Selects attributes of the entry and returns their encoded length. `moreMembers`: the row lacks some members. */
  select(selection: Selection, typesOnly: boolean, large?: SelectedLarge, moreMembers = false): number {
    const { count, stored, firsts } = this.#entry;
    const { ranges } = selection;
    const cut = moreMembers ? selection.member : undefined;
    this.#large = large;
    this.#typesOnly = typesOnly;
    this.#position = 0;
    this.#nextValue = -1;
    let bytes = 0;
    let taken = 0;
    for (let i = 0; i < count; i++) {
      if (!selection.takes(stored[i]!)) continue;
      let name = this.#names.of(stored[i]!);
      let from = firsts[i]!;
      let to = firsts[i + 1]!;
      const { description } = stored[i]!;
      const range = ranges?.get(description) ?? (description === cut ? ALL_VALUES : undefined);
      if (range) {
        const part = selectRange(range, to - from, description === cut);
        name = nameElement(description.text + part.option);
        to = from + part.to;
        from += part.from;
      }
      const set = typesOnly ? 0 : this.#valueBytes(i, from, to);
      this.#indexes[taken] = i;
      this.#firstValues[taken] = from;
      this.#endValues[taken] = to;
      this.#encodedNames[taken] = name;
      this.#setLengths[taken++] = set;
      bytes += elementBytes(attributeBytes(name, set));
    }
    this.#count = taken;
    return bytes;
  }

  #valueBytes(i: number, from: number, to: number): number {
    const { starts, ends } = this.#entry;
    let set = 0;
    for (let v = from; v < to; v++) {
      const large = this.#large && this.#largeQualifier(this.#large, i, v);
      set += elementBytes(large ? this.#large!.values.lengthOf(large) : ends[v]! - starts[v]!);
    }
    return set;
  }

  #largeQualifier({ qualifiers }: SelectedLarge, i: number, v: number): Buffer | undefined {
    const qualifier = this.#entry.qualifier(i, v);
    return qualifiers.has(qualifier.toString('latin1')) ? qualifier : undefined;
  }

  /** Writes all attributes of a short entry. */
  writeAll(writer: Writer): void {
    const { row, starts, ends } = this.#entry;
    const count = this.#count;
    for (let n = 0; n < count; n++) {
      writeAttributeHead(writer, this.#encodedNames[n]!, this.#setLengths[n]!);
      if (!this.#typesOnly)
        writer.octetStrings(OCTET_STRING, row, starts, ends, this.#firstValues[n]!, this.#endValues[n]!);
    }
  }

  /** Writes up to about `limit` bytes, or until `nextLarge` has to follow. Returns false when all is written. */
  write(writer: Writer, limit: number): boolean {
    for (; this.#position < this.#count; this.#position++) {
      const i = this.#indexes[this.#position]!;
      if (this.#nextValue < 0) {
        writeAttributeHead(writer, this.#encodedNames[this.#position]!, this.#setLengths[this.#position]!);
        this.#nextValue = this.#firstValues[this.#position]!;
      }
      if (this.#writeValues(writer, i, this.#endValues[this.#position]!, limit)) return true;
      this.#nextValue = -1;
    }
    return false;
  }

  /** Writes values of one attribute; returns whether `write` has to be called again. */
  #writeValues(writer: Writer, i: number, end: number, limit: number): boolean {
    const { row, starts, ends } = this.#entry;
    const large = this.#large;
    while (this.#nextValue < end) {
      const from = this.#nextValue;
      this.nextLarge = large && this.#largeQualifier(large, i, from);
      this.#nextValue = this.nextLarge ? from + 1 : this.#fits(from, end, limit - writer.length);
      if (this.nextLarge) writer.header(OCTET_STRING, large!.values.lengthOf(this.nextLarge));
      else writer.octetStrings(OCTET_STRING, row, starts, ends, from, this.#nextValue);
      if (this.nextLarge || writer.length >= limit) return true;
    }
    return false;
  }

  /** Returns the end of a run of values from `from` that takes about `bytes` bytes. */
  #fits(from: number, end: number, bytes: number): number {
    if (this.#large) return from + 1;
    const { starts, ends } = this.#entry;
    let to = from + 1;
    while (to < end && ends[to]! - starts[from]! < bytes) to++;
    return to;
  }
}
