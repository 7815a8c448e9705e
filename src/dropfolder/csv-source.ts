import type { FileHandle } from 'node:fs/promises';
import { isAtOrBelow } from '../access/requester.js';
import { escapeValue, parseFilter } from '../ldap/filter-text.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Filter, Modification } from '../ldap/ldap-types.js';
import { formatChange, formatComment } from '../ldif/index.js';
import { type Partition, UNLIMITED_SEARCH, UNRESTRICTED } from '../partition/index.js';
import type { Access, Entry } from '../partition/model/directory-types.js';
import type { Refusal } from '../partition/model/drop-rows.js';
import type { Sight } from '../partition/model/viewer.js';
import type { ChangeRecord } from '../records/apply.js';
import type { AttributeDescription, Ava, Dn } from '../schema/schema-types.js';
import {
  type DesiredAttribute,
  distinctValues,
  findDifferences,
  mayRead,
  normalizerOf,
  toPartialAttribute,
  type VisibleEntry,
  valuesOf,
} from './csv-changes.js';
import {
  type CsvMapping,
  fillDn,
  fillTemplate,
  fillValue,
  indexWarnings,
  isClassList,
  mappedColumns,
  type ValueTemplate,
} from './csv-mapping.js';
import { type CsvRow, readRows } from './csv-rows.js';
import { DropError } from './layout.js';
import { formatRefusal, type RecordSource, type SourceRecord } from './source.js';

/**
 * The change records of a CSV file. Each row yields the change that brings its entry to the values of the row. After
 * the rows come changes to the entries whose row is gone. Each change is computed when it is applied, so that a row
 * that the entry matches already yields none. An entry that the applying identity may not see counts as absent. An
 * attribute that it may not read counts as different: the change is then tried, and refused by the access rules.
 */
export class CsvSource implements RecordSource {
  readonly #file: FileHandle;
  readonly #partition: Partition;
  readonly #mapping: CsvMapping;
  readonly #access: Access | undefined;
  /** Keys of all rows, normalized by the equality rule of the key attribute. */
  readonly #rowKeys = new Set<string>();
  #rowCount = 0;
  readonly warnings: readonly string[];

  private constructor(file: FileHandle, partition: Partition, mapping: CsvMapping, access: Access | undefined) {
    this.#file = file;
    this.#partition = partition;
    this.#mapping = mapping;
    this.#access = access;
    this.warnings = indexWarnings(mapping, partition);
  }

  /**
   * Reads and checks the file once. Throws `DropError` when the file is not CSV, lacks a column, or would remove too
   * many entries. `access`: rights of the applying identity; undefined: the administrator.
   */
  static async open(
    file: FileHandle,
    partition: Partition,
    mapping: CsvMapping,
    access: Access | undefined,
  ): Promise<CsvSource> {
    const source = new CsvSource(file, partition, mapping, access);
    await source.#checkRows();
    return source;
  }

  async #checkRows(): Promise<void> {
    const { key, gone, mostGone, delimiter } = this.#mapping;
    const columns = mappedColumns(this.#mapping);
    for await (const { line, values } of readRows(this.#file, delimiter)) {
      const missingColumns =
        this.#rowCount++ === 0 ? [...columns].filter((column) => !Object.hasOwn(values, column)) : [];
      if (missingColumns.length > 0)
        throw new DropError(
          `it has no column '${missingColumns.join("', '")}', which the mapping names; its first row has ${Object.keys(values).length}, split at the delimiter '${delimiter}' of the mapping`,
        );
      const value = keyOf(key, values);
      const rowKey = this.#normalizeKey(value);
      if (value.length === 0) throw new DropError(`line ${line} has no '${key.column}', which tells whose row it is`);
      if (this.#rowKeys.has(rowKey))
        throw new DropError(`line ${line} has a '${key.column}' that another row has; drop one`);
      this.#rowKeys.add(rowKey);
    }
    if (gone === 'nothing') return;
    if (this.#rowCount === 0) throw new DropError('it has no rows, and all entries would go; drop a file with rows');
    const { length } = await this.#findGoneDns(new Set());
    if (length <= mostGone) return;
    throw new DropError(
      `${length} entries have no row in it, and at most ${mostGone} may go at once; raise mostGone in the mapping if they shall`,
    );
  }

  async *readRecords(doneCount: number, refusedDns: ReadonlySet<string> = new Set()): AsyncGenerator<SourceRecord> {
    let recordNumber = 0;
    if (doneCount < this.#rowCount)
      for await (const { line, values } of readRows(this.#file, this.#mapping.delimiter))
        if (recordNumber++ >= doneCount) yield { line, makeChange: () => this.#changeFor(values) };
    for (const dn of await this.#findGoneDns(refusedDns))
      yield { line: 0, dn, makeChange: () => this.#makeGoneChange(dn) };
  }

  async *formatRejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer> {
    const byNumber = new Map(refusals.map((refusal) => [refusal.number, refusal]));
    let recordNumber = 0;
    for await (const { values } of readRows(this.#file, this.#mapping.delimiter)) {
      const refusal = byNumber.get(recordNumber++);
      if (refusal) yield* this.#formatReject(refusal, () => this.#changeFor(values), values);
    }
    for (const refusal of refusals)
      if (refusal.dn !== undefined) yield* this.#formatReject(refusal, async () => this.#makeGoneChange(refusal.dn!));
  }

  async *#formatReject(
    refusal: Refusal,
    change: () => Promise<ChangeRecord | undefined>,
    row?: CsvRow['values'],
  ): AsyncGenerator<Buffer> {
    yield formatRefusal(refusal);
    try {
      const record = await change();
      if (record) yield formatChange(record);
    } catch (error) {
      // The comment before this record in the rejects file has the reason.
      if (!(error instanceof LdapError)) throw error;
      if (row) yield formatComment(await this.#describeRow(row));
    }
    yield Buffer.from('\n');
  }

  /** Returns the key of a row and the DN of its entry, for a comment. */
  async #describeRow(row: CsvRow['values']): Promise<string> {
    const { key, dn } = this.#mapping;
    const dns = (await this.#findByKey(keyOf(key, row))).map(({ entry }) => entry.dn);
    return `the row with ${key.column} '${keyOf(key, row)}', dn: ${dns.join('; ') || (fillDn(dn, row) ?? 'none')}`;
  }

  /** Returns the change that brings the entry to the values of the row; undefined if there is no difference. */
  async #changeFor(row: CsvRow['values']): Promise<ChangeRecord | undefined> {
    const { key, base } = this.#mapping;
    const [match, ...duplicates] = await this.#findByKey(keyOf(key, row));
    if (duplicates.length > 0)
      throw new LdapError('constraintViolation', `several entries have this ${key.attribute.text}; let one have it`);
    const attributes = await this.#desiredAttributes(row);
    if (match)
      return modifyRecord(match.entry, findDifferences(this.#partition.schema, match, attributes, this.#newNames(row)));
    const newDn = this.#newDn(row);
    if (!isAtOrBelow(newDn, base))
      throw new LdapError('namingViolation', `'${newDn.text}', which dn gives, is not below the base '${base.text}'`);
    return {
      ...baseRecord(newDn.text),
      kind: 'add',
      attributes: attributes.filter(({ values }) => values.length > 0).map(toPartialAttribute),
    };
  }

  /** Returns the DN that a new entry gets. Throws `LdapError` if the row gives none. */
  #newDn(row: CsvRow['values']): Dn {
    const { dn } = this.#mapping;
    const text = fillDn(dn, row);
    if (text !== undefined) return this.#partition.schema.parseDn(text);
    throw new LdapError('namingViolation', `the DN of a new entry needs a value of each column in ${dn}`);
  }

  /** Returns the values that would name a new entry; none if the row gives no DN. */
  #newNames(row: CsvRow['values']): readonly Ava[] {
    try {
      return this.#newDn(row).rdns[0]?.avas ?? [];
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      return [];
    }
  }

  /** Returns what the row, the constants and `always` give to each attribute. An empty column gives the constant. */
  async #desiredAttributes(row: CsvRow['values']): Promise<DesiredAttribute[]> {
    const { attributes, constants, always } = this.#mapping;
    const desired = new Map<AttributeDescription, DesiredAttribute>();
    for (const constant of constants) desired.set(constant.description, { ...constant, isDefault: true });
    const add = (description: AttributeDescription, values: readonly Buffer[]): void => {
      const constant = desired.get(description);
      const isClasses = isClassList(description);
      const allValues = constant && (values.length === 0 || isClasses) ? [...constant.values, ...values] : values;
      desired.set(description, { description, values: allValues, isDefault: false });
    };
    for (const { description, templates } of attributes)
      add(description, await this.#fillAll(description, templates, row));
    for (const { description, values } of always) add(description, values);
    return [...desired.values()].map((one) => ({ ...one, values: distinctValues(one) }));
  }

  /** Fills the templates of an attribute. Leaves out those with an empty column. */
  async #fillAll(
    description: AttributeDescription,
    templates: readonly ValueTemplate[],
    row: CsvRow['values'],
  ): Promise<Buffer[]> {
    const values: Buffer[] = [];
    for (const template of templates) {
      const value =
        typeof template === 'string'
          ? fillValue(description, template, row)
          : await this.#findDn(description, template.find, row);
      if (value !== undefined) values.push(Buffer.from(value));
    }
    return values;
  }

  /** Returns the DN of the one entry that the filter finds; undefined if a column of the filter is empty. */
  async #findDn({ text }: AttributeDescription, find: string, row: CsvRow['values']): Promise<string | undefined> {
    const filter = fillTemplate(find, row, (value) => escapeValue(Buffer.from(value)));
    if (filter === undefined) return undefined;
    const [match, ...others] = await this.#search(parseFilter(filter));
    const problem = match ? 'several entries match' : 'no entry matches';
    if (!match || others.length > 0)
      throw new LdapError('constraintViolation', `${problem} ${find}, which gives '${text}'; one has to`);
    return match.entry.dn;
  }

  #makeGoneChange(dn: string): ChangeRecord | undefined {
    const { gone } = this.#mapping;
    if (typeof gone === 'string') return { ...baseRecord(dn), kind: 'delete' };
    const attribute = { type: gone.attribute, values: [Buffer.from(gone.value)] };
    return { ...baseRecord(dn), kind: 'modify', changes: [{ operation: 'replace', attribute }] };
  }

  /**
   * Returns the DNs of the entries that have a key but no row, deepest first. Excludes entries on which the `gone`
   * action was carried out before, and entries whose key may not be read, since the file may have a row for them.
   */
  async #findGoneDns(refusedDns: ReadonlySet<string>): Promise<string[]> {
    const { key, gone } = this.#mapping;
    const { schema } = this.#partition;
    const dns: string[] = [];
    if (gone === 'nothing') return dns;
    for (const { entry, sight } of await this.#search({ type: 'present', attribute: key.attribute.text })) {
      const readableValues = (description: AttributeDescription) =>
        mayRead(sight, description) ? valuesOf(this.#partition.schema, entry, description) : [];
      const keys = readableValues(key.attribute);
      const isListed = keys.length === 0 || keys.some((value) => this.#rowKeys.has(this.#normalizeKey(value)));
      const isDone =
        typeof gone !== 'string' &&
        readableValues(schema.requireDescription(gone.attribute)).some((one) => String(one) === gone.value);
      if (!isListed && !isDone && !refusedDns.has(entry.dn)) dns.push(entry.dn);
    }
    return dns.sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  }

  /** Returns the entries that have the key in the attribute itself, and not with an option. */
  async #findByKey(value: Buffer): Promise<VisibleEntry[]> {
    const { attribute } = this.#mapping.key;
    const rowKey = this.#normalizeKey(value);
    const matches = await this.#search({ type: 'equal', attribute: attribute.text, value }, true);
    return matches.filter(({ entry }) =>
      valuesOf(this.#partition.schema, entry, attribute).some((stored) => this.#normalizeKey(stored) === rowKey),
    );
  }

  /** `large`: whether the entries are read with their large values. */
  async #search(filter: Filter, large = false): Promise<VisibleEntry[]> {
    const hits: { id: Buffer; sight: Sight | undefined }[] = [];
    this.#partition.renewReads();
    await this.#access?.renew();
    const viewer = this.#access?.viewer ?? UNRESTRICTED;
    await this.#partition.search(
      { ...UNLIMITED_SEARCH, viewer, base: this.#mapping.base, scope: 'sub', filter },
      { entry: ({ id, sight }) => void hits.push({ id: Buffer.from(id), sight }), reference: () => undefined },
    );
    const visibleEntries: VisibleEntry[] = [];
    for (const { id, sight } of hits) {
      const entry = await this.#partition.readById(id, large);
      if (entry) visibleEntries.push({ entry, sight });
    }
    return visibleEntries;
  }

  #normalizeKey(value: Buffer): string {
    return normalizerOf(this.#mapping.key.attribute.type)(value);
  }
}

function keyOf({ column }: CsvMapping['key'], row: CsvRow['values']): Buffer {
  return Buffer.from(row[column]!.trim());
}

function baseRecord(dn: string) {
  return { dn, controls: [], line: 0, offset: 0, text: Buffer.alloc(0) };
}

function modifyRecord({ dn }: Entry, changes: readonly Modification[]): ChangeRecord | undefined {
  return changes.length > 0 ? { ...baseRecord(dn), kind: 'modify', changes } : undefined;
}
