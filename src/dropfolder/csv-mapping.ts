import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Schema } from '../schema/schema.js';
import type { AttributeType, Dn } from '../schema/schema-types.js';
import { DropError } from './layout.js';

export type GoneAction = 'nothing' | 'delete' | { readonly attribute: string; readonly value: string };

/** How rows of a CSV file become entries. The fields are those of the mapping file (docs/dropfolder.md). */
export interface CsvMapping {
  /** The column that identifies a row, and the attribute that holds its value. */
  readonly key: { readonly column: string; readonly attribute: string };
  /** The entries that the file describes are below this DN. */
  readonly base: Dn;
  /** Template of the DN of a new entry. */
  readonly dn: string;
  /** Templates of values, by attribute. */
  readonly attributes: ReadonlyMap<AttributeType, readonly string[]>;
  readonly constants: ReadonlyMap<AttributeType, readonly string[]>;
  readonly gone: GoneAction;
  /** The most entries that a file may remove. A file that would remove more is refused. */
  readonly mostGone: number;
  readonly delimiter: string;
}

/** Returns the names of the columns that the mapping uses. */
export function mappedColumns({ key, dn, attributes }: CsvMapping): Set<string> {
  const templates = [dn, ...[...attributes.values()].flat()];
  const columns = templates.flatMap((template) => [...template.matchAll(COLUMN_REFERENCES)].map((match) => match[1]!));
  return new Set([key.column, ...columns]);
}

const COLUMN_REFERENCES = /\{([^{}]+)\}/g;

/** Replaces `{COLUMN}` in the template by the values of a row. Values in a DN are escaped (RFC 4514 §2.4). */
export function fillTemplate(template: string, row: Readonly<Record<string, string>>, isInDn = false): string {
  return template.replaceAll(COLUMN_REFERENCES, (_, column: string) => {
    const value = row[column]!.trim();
    return isInDn ? value.replaceAll(/[\\,+"<>;=#]|^ | $/g, '\\$&') : value;
  });
}

const MAPPING_KEYS = ['key', 'base', 'dn', 'attributes', 'constants', 'gone', 'mostGone', 'delimiter'];
const DEFAULT_MOST_GONE = 50;

/** Reads a mapping file. Throws a `DropError` that describes the first mistake. */
export function readMapping(file: string, schema: Schema): CsvMapping {
  try {
    const document: unknown = parse(readFileSync(file, 'utf8'));
    return new MappingReader(schema).read(requireObject(document, 'the file'));
  } catch (error) {
    throw new DropError(`${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

class MappingError extends Error {}

function requireObject(value: unknown, label: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new MappingError(`${label} has to be a map of names and values`);
  return value as Record<string, unknown>;
}

function requireText(value: unknown, label: string): string {
  if (typeof value !== 'string' && typeof value !== 'number') throw new MappingError(`${label} has to be a text`);
  return String(value);
}

class MappingReader {
  readonly #schema: Schema;

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  read(document: Record<string, unknown>): CsvMapping {
    const unknownKey = Object.keys(document).find((name) => !MAPPING_KEYS.includes(name));
    if (unknownKey !== undefined)
      throw new MappingError(`'${unknownKey}' is not known; there are ${MAPPING_KEYS.join(', ')}`);
    const key = requireObject(document.key, 'key');
    const attribute = this.#parseType(requireText(key.attribute, 'key.attribute'));
    const column = requireText(key.column, 'key.column');
    const attributes = this.#readTemplates(document.attributes, 'attributes', (value) =>
      COLUMN_REFERENCE.test(value) ? value : `{${value}}`,
    );
    const mapping: CsvMapping = {
      key: { column, attribute: attribute.name },
      base: this.#schema.parseDn(requireText(document.base, 'base')),
      dn: requireText(document.dn, 'dn'),
      attributes: new Map([[attribute, [`{${column}}`]], ...attributes]),
      constants: this.#readTemplates(document.constants ?? {}, 'constants', (value) => value),
      gone: this.#readGoneAction(document.gone ?? 'nothing'),
      mostGone: Number(document.mostGone ?? DEFAULT_MOST_GONE),
      delimiter: requireText(document.delimiter ?? ',', 'delimiter'),
    };
    if (!Number.isInteger(mapping.mostGone) || mapping.mostGone < 0)
      throw new MappingError('mostGone has to be a number of entries');
    if (!/^[^"\r\n]$/.test(mapping.delimiter))
      throw new MappingError('delimiter has to be one character, and no quote or line break');
    return mapping;
  }

  #parseType(name: string): AttributeType {
    return this.#schema.requireDescription(name).type;
  }

  #readTemplates(lists: unknown, label: string, toTemplate: (value: string) => string): Map<AttributeType, string[]> {
    const templates = new Map<AttributeType, string[]>();
    for (const [name, value] of Object.entries(requireObject(lists, label)))
      templates.set(
        this.#parseType(name),
        (Array.isArray(value) ? value : [value]).map((item) => toTemplate(requireText(item, `${label}.${name}`))),
      );
    return templates;
  }

  #readGoneAction(action: unknown): GoneAction {
    if (action === 'nothing' || action === 'delete') return action;
    if (typeof action !== 'object')
      throw new MappingError("gone has to be 'nothing', 'delete', or an attribute and a value");
    const { attribute, value } = requireObject(action, 'gone');
    return {
      attribute: this.#parseType(requireText(attribute, 'gone.attribute')).name,
      value: requireText(value, 'gone.value'),
    };
  }
}

const COLUMN_REFERENCE = /\{[^{}]+\}/;
