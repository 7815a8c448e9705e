import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import type { EntryReader } from '../../partition/model/entry-reader.js';
import { attributeBytes, nameElement, writeAttributeHead } from '../../protocol/encode-entry.js';
import { OCTET_STRING } from '../../protocol/tags.js';
import { elementBytes, type Writer } from '../../protocol/writer.js';
import { ALL_VALUES, selectRange } from './computed.js';
import type { Selection } from './selection.js';

/** The values of one entry that are too long for its row. Must be closed. */
export interface OpenLargeValues {
  valueLength(qualifier: Buffer): number;
  /** Returns the bytes of the value in pieces. */
  chunks(qualifier: Buffer): AsyncIterable<Buffer>;
  close(): void;
}

/** The selected values of one entry that are not in its row. */
export interface SelectedLargeValues {
  /** Qualifiers as Latin-1. */
  readonly qualifiers: ReadonlySet<string>;
  readonly values: OpenLargeValues;
}

/** Cache of encoded attribute descriptions by `StoredDescription.number`, with the schema's spelling of the type. */
export class EncodedDescriptions {
  readonly #encodedDescriptions: Buffer[] = [];

  encode({ number, description }: StoredDescription): Buffer {
    // Descriptions that the table does not keep share one number.
    if (number >= DescriptionTable.MAX) return nameElement(description.text);
    let encodedDescription = this.#encodedDescriptions[number];
    if (!encodedDescription) {
      encodedDescription = nameElement(description.text);
      this.#encodedDescriptions[number] = encodedDescription;
    }
    return encodedDescription;
  }
}

/**
 * Encodes the selected attributes of one entry (RFC 4511 §4.5.2): first measures, then writes. Allocates nothing per
 * attribute or per value in the row.
 */
export class OutgoingAttributes {
  readonly #encodedDescriptions: EncodedDescriptions;
  readonly #entry: EntryReader;
  #largeValues: SelectedLargeValues | undefined;
  /** Per selected attribute: index in the entry, values `[from, to)`, encoded name, content length of its SET. */
  readonly #indexes: number[] = [];
  readonly #firstValues: number[] = [];
  readonly #endValues: number[] = [];
  readonly #attributeDescriptions: Buffer[] = [];
  readonly #setLengths: number[] = [];
  #selectedCount = 0;
  #typesOnly = false;
  /** Position of `write`: index of the selected attribute and of the next value. */
  #attributePosition = 0;
  #nextValue = 0;
  /** Qualifier of the large value that the caller has to write next. */
  nextLargeQualifier: Buffer | undefined;

  constructor(entry: EntryReader, names: EncodedDescriptions) {
    this.#entry = entry;
    this.#encodedDescriptions = names;
  }

  /** Selects attributes of the entry and returns their encoded length. `hasMoreMembers`: the row lacks some members. */
  select(selection: Selection, typesOnly: boolean, largeValues?: SelectedLargeValues, moreMembers = false): number {
    const { attributeCount: count, descriptions: stored, firstValues: firsts } = this.#entry;
    const { ranges } = selection;
    const incompleteMember = moreMembers ? selection.member : undefined;
    this.#largeValues = largeValues;
    this.#typesOnly = typesOnly;
    this.#attributePosition = 0;
    this.#nextValue = -1;
    let attributesLength = 0;
    let selectedCount = 0;
    for (let i = 0; i < count; i++) {
      if (!selection.takes(stored[i]!)) continue;
      let encodedDescription = this.#encodedDescriptions.encode(stored[i]!);
      let from = firsts[i]!;
      let to = firsts[i + 1]!;
      const { description } = stored[i]!;
      const range = ranges?.get(description) ?? (description === incompleteMember ? ALL_VALUES : undefined);
      if (range) {
        const selectedRange = selectRange(range, to - from, description === incompleteMember);
        encodedDescription = nameElement(description.text + selectedRange.option);
        to = from + selectedRange.to;
        from += selectedRange.from;
      }
      const setLength = typesOnly ? 0 : this.#valueBytes(i, from, to);
      this.#indexes[selectedCount] = i;
      this.#firstValues[selectedCount] = from;
      this.#endValues[selectedCount] = to;
      this.#attributeDescriptions[selectedCount] = encodedDescription;
      this.#setLengths[selectedCount++] = setLength;
      attributesLength += elementBytes(attributeBytes(encodedDescription, setLength));
    }
    this.#selectedCount = selectedCount;
    return attributesLength;
  }

  #valueBytes(i: number, from: number, to: number): number {
    const { valueStarts: starts, valueEnds: ends } = this.#entry;
    let setLength = 0;
    for (let v = from; v < to; v++) {
      const largeQualifier = this.#largeValues && this.#largeQualifier(this.#largeValues, i, v);
      setLength += elementBytes(
        largeQualifier ? this.#largeValues!.values.valueLength(largeQualifier) : ends[v]! - starts[v]!,
      );
    }
    return setLength;
  }

  #largeQualifier({ qualifiers }: SelectedLargeValues, i: number, v: number): Buffer | undefined {
    const qualifier = this.#entry.qualifier(i, v);
    return qualifiers.has(qualifier.toString('latin1')) ? qualifier : undefined;
  }

  /** Writes all attributes of a short entry. */
  writeAll(writer: Writer): void {
    const { row, valueStarts: starts, valueEnds: ends } = this.#entry;
    const count = this.#selectedCount;
    for (let n = 0; n < count; n++) {
      writeAttributeHead(writer, this.#attributeDescriptions[n]!, this.#setLengths[n]!);
      if (!this.#typesOnly)
        writer.octetStrings(OCTET_STRING, row, starts, ends, this.#firstValues[n]!, this.#endValues[n]!);
    }
  }

  /**
   * Writes up to about `limit` bytes, or until `nextLargeQualifier` has to follow. Returns false when all is written.
   */
  write(writer: Writer, limit: number): boolean {
    for (; this.#attributePosition < this.#selectedCount; this.#attributePosition++) {
      const i = this.#indexes[this.#attributePosition]!;
      if (this.#nextValue < 0) {
        writeAttributeHead(
          writer,
          this.#attributeDescriptions[this.#attributePosition]!,
          this.#setLengths[this.#attributePosition]!,
        );
        this.#nextValue = this.#firstValues[this.#attributePosition]!;
      }
      if (this.#writeValues(writer, i, this.#endValues[this.#attributePosition]!, limit)) return true;
      this.#nextValue = -1;
    }
    return false;
  }

  /** Writes values of one attribute; returns whether `write` has to be called again. */
  #writeValues(writer: Writer, i: number, end: number, limit: number): boolean {
    const { row, valueStarts: starts, valueEnds: ends } = this.#entry;
    const largeValues = this.#largeValues;
    while (this.#nextValue < end) {
      const from = this.#nextValue;
      this.nextLargeQualifier = largeValues && this.#largeQualifier(largeValues, i, from);
      this.#nextValue = this.nextLargeQualifier ? from + 1 : this.#runEnd(from, end, limit - writer.length);
      if (this.nextLargeQualifier)
        writer.header(OCTET_STRING, largeValues!.values.valueLength(this.nextLargeQualifier));
      else writer.octetStrings(OCTET_STRING, row, starts, ends, from, this.#nextValue);
      if (this.nextLargeQualifier || writer.length >= limit) return true;
    }
    return false;
  }

  /** Returns the end of a run of values from `from` that takes about `bytes` bytes. */
  #runEnd(from: number, end: number, bytes: number): number {
    if (this.#largeValues) return from + 1;
    const { valueStarts: starts, valueEnds: ends } = this.#entry;
    let runEnd = from + 1;
    while (runEnd < end && ends[runEnd]! - starts[from]! < bytes) runEnd++;
    return runEnd;
  }
}
