import { readFileSync } from 'node:fs';
import { parse, type Tags } from 'yaml';
import { isAtOrBelow } from '../access/requester.js';
import { parseFilter } from '../ldap/filter-text.js';
import type { Partition } from '../partition/index.js';
import { bodyStart, knownScheme } from '../password/schemes.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType, Dn } from '../schema/schema-types.js';
import { DropError } from './layout.js';

export type GoneAction = 'nothing' | 'delete' | { readonly attribute: string; readonly value: string };

/** What gives a value: a text with columns, or a filter with columns that finds the entry whose DN is the value. */
export type ValueTemplate = string | { readonly find: string };

export interface MappedAttribute {
  readonly description: AttributeDescription;
  readonly templates: readonly ValueTemplate[];
}

export interface FixedAttribute {
  readonly description: AttributeDescription;
  readonly values: readonly Buffer[];
}

/** How rows of a CSV file become entries. The fields are those of the mapping file (docs/dropfolder.md). */
export interface CsvMapping {
  /** The column that identifies a row, and the attribute that holds its value. */
  readonly key: { readonly column: string; readonly attribute: AttributeDescription };
  /** The entries that the file describes are below this DN. */
  readonly base: Dn;
  /** Template of the DN of a new entry. */
  readonly dn: string;
  readonly attributes: readonly MappedAttribute[];
  /** Values of new entries. Of an attribute in `attributes` also: the values of all entries whose columns are empty. */
  readonly constants: readonly FixedAttribute[];
  /** Values that each row sets, in new and existing entries, whatever the row itself gives. */
  readonly always: readonly FixedAttribute[];
  readonly gone: GoneAction;
  /** The most entries that a file may remove. A file that would remove more is refused. */
  readonly mostGone: number;
  readonly delimiter: string;
}

export function isClassList({ type, options }: AttributeDescription): boolean {
  return type.name === 'objectClass' && options.length === 0;
}

/** Returns the names of the columns that the mapping uses. */
export function mappedColumns({ key, dn, attributes }: CsvMapping): Set<string> {
  const templates = attributes.flatMap((one) =>
    one.templates.map((item) => (typeof item === 'string' ? item : item.find)),
  );
  const columns = [dn, ...templates].flatMap(columnsOf);
  return new Set([key.column, ...columns]);
}

/** Returns a warning for each attribute by which rows find entries and that has no complete index. */
export function indexWarnings(
  { key, attributes }: CsvMapping,
  partition: Pick<Partition, 'indexes' | 'schema'>,
): string[] {
  const filters = attributes.flatMap((one) =>
    one.templates.flatMap((item) => (typeof item === 'string' ? [] : item.find)),
  );
  // The attributes that are compared with a column.
  const names = filters.flatMap((filter) =>
    [...filter.matchAll(/\(([\w.;-]+)[^()=]*=[^()]*\{/g)].map((match) => match[1]!),
  );
  const descriptions = [key.attribute, ...names.map((name) => partition.schema.requireDescription(name))];
  const indexed = new Set(partition.indexes().flatMap(({ oid, state }) => (state === 'ready' ? oid : [])));
  const missing = new Set(descriptions.flatMap(({ type }) => (indexed.has(type.oid) ? [] : type.name)));
  return [...missing].map(
    (name) => `'${name}' has no index, and each row reads all entries; run: rowan index add ${name}`,
  );
}

const COLUMN_REFERENCES = /\{([^{}]+)\}/g;
const WHOLE_COLUMN = /^\{[^{}]+\}$/;

export function columnsOf(template: string): string[] {
  return [...template.matchAll(COLUMN_REFERENCES)].map((match) => match[1]!);
}

type Row = Readonly<Record<string, string>>;

/** Replaces `{COLUMN}` in the template by the values of a row. Returns undefined if one of the values is empty. */
export function fillTemplate(template: string, row: Row, encode = (value: string) => value): string | undefined {
  if (columnsOf(template).some((column) => row[column]!.trim() === '')) return undefined;
  return template.replaceAll(COLUMN_REFERENCES, (_, column: string) => encode(row[column]!.trim())).trim();
}

/** As `fillTemplate`, for a DN. Values are escaped (RFC 4514 §2.4), so that each stays within its RDN. */
export function fillDn(template: string, row: Row): string | undefined {
  return fillTemplate(template, row, (value) =>
    value.replaceAll(/[\\,+"<>;=#]|^ | $/g, '\\$&').replaceAll('\0', '\\00'),
  );
}

/** As `fillTemplate`, for a value of the attribute. A column alone in an attribute of DN syntax has a whole DN. */
export function fillValue({ type }: AttributeDescription, template: string, row: Row): string | undefined {
  const fill = hasDnSyntax(type) && !WHOLE_COLUMN.test(template) ? fillDn : fillTemplate;
  return fill(template, row);
}

/** DN, and Name and Optional UID (RFC 4517 §3.3.9 and §3.3.21). */
const DN_SYNTAXES = ['1.3.6.1.4.1.1466.115.121.1.12', '1.3.6.1.4.1.1466.115.121.1.34'];

function hasDnSyntax({ syntax }: AttributeType): boolean {
  return DN_SYNTAXES.includes(syntax.oid);
}

const MAPPING_KEYS = ['key', 'base', 'dn', 'attributes', 'constants', 'always', 'gone', 'mostGone', 'delimiter'];
const DEFAULT_MOST_GONE = 50;

/** Reads a mapping file. Throws a `DropError` that describes the first mistake. */
export function readMapping(file: string, schema: Schema): CsvMapping {
  try {
    const document: unknown = parse(readFileSync(file, 'utf8'), { customTags: onlyTexts });
    return new MappingReader(schema).read(requireObject(document, 'the file'));
  } catch (error) {
    throw new DropError(`${file}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** Leaves out the numbers, booleans and dates of YAML: `007` and `+31` stay the texts that the file has. */
function onlyTexts(tags: Tags): Tags {
  return tags.filter((tag) => typeof tag === 'string' || /:(map|seq|str|null)$/.test(tag.tag));
}

class MappingError extends Error {}

function requireObject(value: unknown, label: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new MappingError(`${label} has to be a map of names and values`);
  return value as Record<string, unknown>;
}

function requireText(value: unknown, label: string): string {
  if (typeof value !== 'string') throw new MappingError(`${label} has to be a text`);
  return value;
}

/** As `requireText`, for a text that is the same for all rows. */
function requireFixedText(value: unknown, label: string): string {
  const text = requireText(value, label);
  if (columnsOf(text).length === 0) return text;
  throw new MappingError(`${label} has a column in braces, and is the same for all rows; put it under attributes`);
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
    const attribute = this.#schema.requireDescription(requireText(key.attribute, 'key.attribute'));
    const column = requireText(key.column, 'key.column');
    const mapping: CsvMapping = {
      key: { column, attribute },
      base: this.#schema.parseDn(requireFixedText(document.base, 'base')),
      dn: requireText(document.dn, 'dn'),
      attributes: this.#readAttributes(document.attributes, attribute, column),
      constants: this.#readFixed(document.constants ?? {}, 'constants'),
      always: this.#readFixed(document.always ?? {}, 'always'),
      gone: this.#readGoneAction(document.gone ?? 'nothing'),
      mostGone: Number(document.mostGone ?? DEFAULT_MOST_GONE),
      delimiter: requireText(document.delimiter ?? ',', 'delimiter'),
    };
    if (!Number.isInteger(mapping.mostGone) || mapping.mostGone < 0)
      throw new MappingError('mostGone has to be a number of entries');
    if (!/^[^"\r\n]$/.test(mapping.delimiter))
      throw new MappingError('delimiter has to be one character, and no quote or line break');
    this.#requireDnBelow(mapping);
    const mapped = mapping.attributes.map(({ description }) => description);
    const setTwice = mapping.always.find((one) => !isClassList(one.description) && mapped.includes(one.description));
    if (setTwice)
      throw new MappingError(`'${setTwice.description.text}' stands under attributes and under always; leave one out`);
    return mapping;
  }

  /** Throws if the end of `dn`, behind its last column, shows that no row gives a DN below the base. */
  #requireDnBelow({ dn, base }: CsvMapping): void {
    const fixedEnd = /(?<!\\),(.*)$/s.exec(dn.slice(dn.lastIndexOf('}') + 1))?.[1];
    if (fixedEnd === undefined) return;
    const end = this.#schema.parseDn(fixedEnd);
    if (!isAtOrBelow(end, base) && !isAtOrBelow(base, end))
      throw new MappingError(`dn: '${end.text}' is not below the base '${base.text}'; correct one of them`);
  }

  #readAttributes(document: unknown, keyAttribute: AttributeDescription, keyColumn: string): MappedAttribute[] {
    const attributes = this.#readLists(document, 'attributes').map(({ description, items, label }) => ({
      description,
      templates: items.map((item) => toTemplate(description, item, label)),
    }));
    const isMapped = attributes.some(({ description }) => description === keyAttribute);
    return isMapped ? attributes : [{ description: keyAttribute, templates: [`{${keyColumn}}`] }, ...attributes];
  }

  #readFixed(document: unknown, label: string): FixedAttribute[] {
    return this.#readLists(document, label).map(({ description, items, label: itemLabel }) => ({
      description,
      values: items.map((item) => {
        const value = Buffer.from(requireText(item, itemLabel));
        const isHash = description.type.secret && knownScheme(value) !== undefined;
        requireFixedText(value.toString('utf8', isHash ? bodyStart(value) : 0), itemLabel);
        return value;
      }),
    }));
  }

  #readLists(document: unknown, label: string) {
    const descriptions = new Set<AttributeDescription>();
    return Object.entries(requireObject(document, label)).map(([name, value]) => {
      const description = this.#schema.requireDescription(name);
      if (descriptions.has(description))
        throw new MappingError(`${label}.${name}: '${description.text}' stands there already, by another name`);
      descriptions.add(description);
      return { description, items: Array.isArray(value) ? value : [value], label: `${label}.${name}` };
    });
  }

  #readGoneAction(action: unknown): GoneAction {
    if (action === 'nothing' || action === 'delete') return action;
    if (typeof action !== 'object')
      throw new MappingError("gone has to be 'nothing', 'delete', or an attribute and a value");
    const { attribute, value } = requireObject(action, 'gone');
    return {
      attribute: this.#schema.requireDescription(requireText(attribute, 'gone.attribute')).text,
      value: requireFixedText(value, 'gone.value'),
    };
  }
}

function toTemplate({ type }: AttributeDescription, item: unknown, label: string): ValueTemplate {
  if (typeof item !== 'object' || item === null) {
    const text = requireText(item, label);
    return columnsOf(text).length > 0 ? text : `{${text}}`;
  }
  const { find, ...others } = requireObject(item, label);
  if (find === undefined || Object.keys(others).length > 0)
    throw new MappingError(`${label} has to be a text, or { find: FILTER }`);
  if (!hasDnSyntax(type)) throw new MappingError(`${label}: '${type.name}' holds no DN, which 'find' gives`);
  const filter = requireText(find, `${label}.find`);
  if (columnsOf(filter).length === 0) throw new MappingError(`${label}.find has to name a column, such as {boss}`);
  parseFilter(filter);
  return { find: filter };
}
