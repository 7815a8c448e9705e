import type { DescriptionTable, StoredDescription } from '../../partition/descriptions.js';
import { beginMessage, encodeAttribute, endMessage } from '../../protocol/encode.js';
import { OCTET_STRING, opTags, SEQUENCE } from '../../protocol/tags.js';
import type { Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../context.js';
import { isPromise, type Maybe } from '../maybe.js';
import type { WriterSource } from './encode-entry.js';
import { INDEX_BYTES } from './row.js';
import { attributeCells } from './row-cells.js';
import type { Selection } from './selection.js';

/** Where values too long for the row are fetched from. */
export interface LargeValues {
  largeValue(id: Buffer, qualifier: Buffer): Maybe<Buffer>;
}

export interface LargeEntry {
  readonly entry: ReplyEntry;
  readonly selection: Selection;
  /** PartialAttributes to append, encoded. */
  readonly tail: Buffer;
  /** Latin-1 qualifiers whose value is not in the row. */
  readonly large: ReadonlySet<string>;
  readonly table: DescriptionTable;
  readonly values: LargeValues;
}

interface Attribute {
  readonly stored: StoredDescription;
  readonly values: Maybe<Buffer>[];
}

/** The way of an entry that has values outside its row: those that are selected are fetched, then all is written. */
export function writeWithLargeValues(output: WriterSource, messageId: number, wanted: LargeEntry): Maybe<void> {
  const attributes = selectedAttributes(wanted);
  if (!attributes.some((a) => a.values.some(isPromise))) {
    write(output.writer, messageId, wanted, attributes as { stored: StoredDescription; values: Buffer[] }[]);
    return;
  }
  return fetched(attributes).then((all) => write(output.writer, messageId, wanted, all));
}

async function fetched(attributes: readonly Attribute[]): Promise<{ stored: StoredDescription; values: Buffer[] }[]> {
  const all = [];
  for (const { stored, values } of attributes) all.push({ stored, values: await Promise.all(values) });
  return all;
}

function selectedAttributes({ entry, selection, large, table, values }: LargeEntry): Attribute[] {
  const attributes: Attribute[] = [];
  let last: Attribute | undefined;
  for (const { qualifier, value } of attributeCells(entry.row)) {
    const stored = table.intern(qualifier, 0, qualifier.length - INDEX_BYTES);
    if (!selection.takes(stored)) continue;
    if (last?.stored !== stored) {
      last = { stored, values: [] };
      attributes.push(last);
    }
    last.values.push(large.has(qualifier.toString('latin1')) ? values.largeValue(entry.id, qualifier) : value);
  }
  return attributes;
}

function write(
  writer: Writer,
  messageId: number,
  { entry, tail }: LargeEntry,
  attributes: readonly { stored: StoredDescription; values: readonly Buffer[] }[],
): void {
  const message = beginMessage(writer, messageId);
  const operation = writer.beginLong(opTags.searchEntry);
  writer.octetString(OCTET_STRING, entry.dn);
  const list = writer.beginLong(SEQUENCE);
  for (const { stored, values } of attributes) encodeAttribute(writer, { type: stored.description.text, values });
  writer.raw(tail);
  writer.end(list);
  writer.end(operation);
  endMessage(writer, message);
}
