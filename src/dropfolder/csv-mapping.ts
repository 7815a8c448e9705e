import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { Schema } from '../schema/schema.js';
import type { AttributeType, Dn } from '../schema/schema-types.js';
import { DropError } from './layout.js';

/** What happens to entries whose row is not in the file any more. */
export type Gone = 'nothing' | 'delete' | { readonly attribute: string; readonly value: string };

/** How rows of a CSV file become entries (docs/dropfolder.md). */
export interface Mapping {
  /** Column whose value tells a row, and the attribute that has it. */
  readonly key: { readonly column: string; readonly attribute: string };
  /** The entries that the file is about are below it. */
  readonly base: Dn;
  /** Template of a new entry's DN. */
  readonly dn: string;
  /** Templates of values, by attribute. */
  readonly attributes: ReadonlyMap<AttributeType, readonly string[]>;
  readonly constants: ReadonlyMap<AttributeType, readonly string[]>;
  readonly gone: Gone;
  /** A file by which more entries would go is refused. */
  readonly mostGone: number;
  readonly delimiter: string;
}

/** Columns that the templates of a mapping name. */
export function columnsOf({ key, dn, attributes }: Mapping): Set<string> {
  const templates = [dn, ...[...attributes.values()].flat()];
  const named = templates.flatMap((template) => [...template.matchAll(COLUMN)].map((match) => match[1]!));
  return new Set([key.column, ...named]);
}

const COLUMN = /\{([^{}]+)\}/g;

/** The template with a row's values in the place of `{COLUMN}`; as a DN's they are escaped (RFC 4514 §2.4). */
export function filled(template: string, row: Readonly<Record<string, string>>, inDn = false): string {
  return template.replaceAll(COLUMN, (_, column: string) => {
    const value = row[column]!.trim();
    return inDn ? value.replaceAll(/[\\,+"<>;=#]|^ | $/g, '\\$&') : value;
  });
}

const KEYS = ['key', 'base', 'dn', 'attributes', 'constants', 'gone', 'mostGone', 'delimiter'];
const MOST_GONE = 50;

/** Reads a mapping file. Throws `DropError` that says what is wrong with it. */
export function readMapping(file: string, schema: Schema): Mapping {
  try {
    const given: unknown = parse(readFileSync(file, 'utf8'));
    return new Reader(schema).mapping(object(given, 'the file'));
  } catch (error) {
    throw new DropError(`${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

class Fault extends Error {}

function object(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Fault(`${what} has to be a map of names and values`);
  return value as Record<string, unknown>;
}

function text(value: unknown, what: string): string {
  if (typeof value !== 'string' && typeof value !== 'number') throw new Fault(`${what} has to be a text`);
  return String(value);
}

class Reader {
  readonly #schema: Schema;

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  mapping(given: Record<string, unknown>): Mapping {
    const unknown = Object.keys(given).find((name) => !KEYS.includes(name));
    if (unknown !== undefined) throw new Fault(`'${unknown}' is not known; there are ${KEYS.join(', ')}`);
    const key = object(given.key, 'key');
    const attribute = this.#type(text(key.attribute, 'key.attribute'));
    const column = text(key.column, 'key.column');
    const attributes = this.#lists(given.attributes, 'attributes', (value) =>
      COLUMN_IN.test(value) ? value : `{${value}}`,
    );
    const mapping: Mapping = {
      key: { column, attribute: attribute.name },
      base: this.#schema.parseDn(text(given.base, 'base')),
      dn: text(given.dn, 'dn'),
      attributes: new Map([[attribute, [`{${column}}`]], ...attributes]),
      constants: this.#lists(given.constants ?? {}, 'constants', (value) => value),
      gone: this.#gone(given.gone ?? 'nothing'),
      mostGone: Number(given.mostGone ?? MOST_GONE),
      delimiter: text(given.delimiter ?? ',', 'delimiter'),
    };
    if (!Number.isInteger(mapping.mostGone) || mapping.mostGone < 0)
      throw new Fault('mostGone has to be a number of entries');
    if (!/^[^"\r\n]$/.test(mapping.delimiter))
      throw new Fault('delimiter has to be one character, and no quote or line break');
    return mapping;
  }

  #type(name: string): AttributeType {
    return this.#schema.requireDescription(name).type;
  }

  #lists(given: unknown, what: string, made: (value: string) => string): Map<AttributeType, string[]> {
    const lists = new Map<AttributeType, string[]>();
    for (const [name, value] of Object.entries(object(given, what)))
      lists.set(
        this.#type(name),
        (Array.isArray(value) ? value : [value]).map((one) => made(text(one, `${what}.${name}`))),
      );
    return lists;
  }

  #gone(given: unknown): Gone {
    if (given === 'nothing' || given === 'delete') return given;
    if (typeof given !== 'object') throw new Fault("gone has to be 'nothing', 'delete', or an attribute and a value");
    const { attribute, value } = object(given, 'gone');
    return { attribute: this.#type(text(attribute, 'gone.attribute')).name, value: text(value, 'gone.value') };
  }
}

const COLUMN_IN = /\{[^{}]+\}/;
