import { createHash } from 'node:crypto';
import { Schema, type SchemaSource } from '../../schema/index.js';
import type { Maybe, Reader, RowStep, Store } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import { parseStoredJson } from '../../store/store-error.js';
import { META_TABLE } from './tables.js';

/** Key of the row of table `meta` that holds the schema of the directory (docs/formats/tables.md). */
export const SCHEMA_KEY = Buffer.from('schema');
const F = 0;
const SOURCE = Buffer.from('source');

function encode(source: SchemaSource): Buffer {
  return Buffer.from(JSON.stringify(source));
}

/** Returns the digest of a schema for the shared row. Schemas with the same digest have the same files. */
export function schemaDigest(source: SchemaSource): Buffer {
  return createHash('sha256').update(encode(source)).digest();
}

export function schemaStep(source: SchemaSource): RowStep {
  return {
    table: META_TABLE.name,
    key: SCHEMA_KEY,
    put: [{ family: F, qualifier: SOURCE, value: encode(source) }],
  };
}

/** Returns the stored files and options of the directory's schema; undefined if the store has none. */
export function readSource(reader: Reader): Maybe<SchemaSource | undefined> {
  return chain(reader.get(META_TABLE.name, SCHEMA_KEY), (row) => {
    const sourceBytes = row && cellValue(row, F, SOURCE);
    return sourceBytes && parseStoredJson<SchemaSource>(sourceBytes, 'the schema, row schema in table meta,');
  });
}

/** Returns the schema of the directory; the built-in schema if the store records none. */
export async function openSchema(store: Store): Promise<Schema> {
  const source = await readSource(store);
  return source ? Schema.of(source) : Schema.load();
}
