import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { LdapError } from '../ldap/ldap-error.js';
import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import { formatChange } from '../ldif/index.js';
import { type Partition, UNLIMITED_SEARCH, UNRESTRICTED } from '../partition/index.js';
import type { Access, Entry } from '../partition/model/directory-types.js';
import type { Refusal } from '../partition/model/drop-rows.js';
import type { Sight } from '../partition/model/viewer.js';
import type { ChangeRecord } from '../records/apply.js';
import type { AttributeType } from '../schema/schema-types.js';
import { type CsvMapping, fillTemplate, mappedColumns } from './csv-mapping.js';
import { DropError } from './layout.js';
import { formatRefusal, type RecordSource, readChunks, type SourceRecord } from './source.js';

const MAX_ROW_BYTES = 1024 * 1024;

interface VisibleEntry {
  readonly entry: Entry;
  /** The rights to read the entry. Undefined: all of the entry may be read. */
  readonly sight: Sight | undefined;
}

interface CsvRow {
  /** Line of the file on which the row ends. */
  readonly line: number;
  readonly values: Readonly<Record<string, string>>;
}

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

  private constructor(file: FileHandle, partition: Partition, mapping: CsvMapping, access: Access | undefined) {
    this.#file = file;
    this.#partition = partition;
    this.#mapping = mapping;
    this.#access = access;
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
    const { key, gone, mostGone } = this.#mapping;
    const columns = mappedColumns(this.#mapping);
    for await (const { line, values } of this.#readRows()) {
      const missingColumns =
        this.#rowCount++ === 0 ? [...columns].filter((column) => !Object.hasOwn(values, column)) : [];
      if (missingColumns.length > 0)
        throw new DropError(`it has no column '${missingColumns.join("', '")}', which the mapping names`);
      const value = fillTemplate(`{${key.column}}`, values);
      const rowKey = this.#normalizeKey(Buffer.from(value));
      if (value === '') throw new DropError(`line ${line} has no '${key.column}', which tells whose row it is`);
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

  async *#readRows(): AsyncGenerator<CsvRow> {
    const { delimiter } = this.#mapping;
    let stream: Readable | undefined;
    try {
      const parser = parse({
        bom: true,
        columns: true,
        delimiter,
        info: true,
        maxRecordSize: MAX_ROW_BYTES,
        skipEmptyLines: true,
      });
      stream = Readable.from(requireUtf8(readChunks(this.#file)));
      stream.on('error', (error) => parser.destroy(error));
      for await (const { record, info } of stream.pipe(parser)) yield { line: info.lines, values: record };
    } catch (error) {
      // Only the code of the error is shown: its message may contain values.
      if (!(error instanceof CsvError)) throw error;
      const { lines } = error as { lines?: number };
      throw new DropError(`line ${lines ?? '?'} is not as in a CSV file (${error.code}); correct it`);
    } finally {
      stream?.destroy();
    }
  }

  async *readRecords(doneCount: number, refusedDns: ReadonlySet<string> = new Set()): AsyncGenerator<SourceRecord> {
    let recordNumber = 0;
    if (doneCount < this.#rowCount)
      for await (const { line, values } of this.#readRows())
        if (recordNumber++ >= doneCount) yield { line, makeChange: () => this.#changeFor(values) };
    for (const dn of await this.#findGoneDns(refusedDns))
      yield { line: 0, dn, makeChange: () => this.#makeGoneChange(dn) };
  }

  async *formatRejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer> {
    const byNumber = new Map(refusals.map((refusal) => [refusal.number, refusal]));
    let recordNumber = 0;
    for await (const { values } of this.#readRows()) {
      const refusal = byNumber.get(recordNumber++);
      if (refusal) yield* this.#formatReject(refusal, () => this.#changeFor(values));
    }
    for (const refusal of refusals)
      if (refusal.dn !== undefined) yield* this.#formatReject(refusal, async () => this.#makeGoneChange(refusal.dn!));
  }

  async *#formatReject(refusal: Refusal, change: () => Promise<ChangeRecord | undefined>): AsyncGenerator<Buffer> {
    yield formatRefusal(refusal);
    try {
      const record = await change();
      if (record) yield formatChange(record);
    } catch (error) {
      // The comment before this record in the rejects file has the reason.
      if (!(error instanceof LdapError)) throw error;
    }
    yield Buffer.from('\n');
  }

  /** Returns the change that brings the entry to the values of the row; undefined if there is no difference. */
  async #changeFor(row: CsvRow['values']): Promise<ChangeRecord | undefined> {
    const { key, attributes, constants, dn } = this.#mapping;
    const value = Buffer.from(fillTemplate(`{${key.column}}`, row));
    const [match, ...duplicates] = await this.#search({ type: 'equal', attribute: key.attribute, value });
    if (duplicates.length > 0)
      throw new LdapError('constraintViolation', `several entries have this ${key.attribute}; let one have it`);
    const rowAttributes = [...attributes].map(([type, templates]) => ({ type, values: fillTemplates(templates, row) }));
    const constantAttributes = [...constants].map(([type, values]) => ({
      type,
      values: values.map((value) => Buffer.from(value)),
    }));
    if (match) return modifyRecord(match.entry, this.#findDifferences(match, rowAttributes, constantAttributes));
    const newAttributes = [...constantAttributes, ...rowAttributes]
      .filter(({ values }) => values.length > 0)
      .map(toPartialAttribute);
    return { ...baseRecord(fillTemplate(dn, row, true)), kind: 'add', attributes: newAttributes };
  }

  /** Compares an entry with a row. Does not change secrets and naming attributes: only new entries get secrets. */
  #findDifferences(
    { entry, sight }: VisibleEntry,
    rowAttributes: readonly DesiredAttribute[],
    constantAttributes: readonly DesiredAttribute[],
  ): Modification[] {
    const namingTypes = new Set(this.#partition.schema.parseDn(entry.dn).rdns[0]!.avas.map(({ type }) => type));
    const changes: Modification[] = [];
    const normalizedValues = (type: AttributeType) =>
      new Set(
        entry.attributes.filter((one) => one.type === type).flatMap(({ values }) => values.map(normalizerOf(type))),
      );
    for (const { type, values } of rowAttributes) {
      if (type.secret || namingTypes.has(type)) continue;
      const rowKeys = new Set(values.map(normalizerOf(type)));
      const storedKeys = normalizedValues(type);
      const isEqual = rowKeys.size === storedKeys.size && [...rowKeys].every((key) => storedKeys.has(key));
      if (isEqual && this.#mayRead(sight, type)) continue;
      changes.push({ operation: 'replace', attribute: toPartialAttribute({ type, values }) });
    }
    for (const { type, values } of constantAttributes) {
      const storedKeys = this.#mayRead(sight, type) ? normalizedValues(type) : new Set<string>();
      const missingValues = type.secret ? [] : values.filter((value) => !storedKeys.has(normalizerOf(type)(value)));
      if (missingValues.length > 0)
        changes.push({ operation: 'add', attribute: toPartialAttribute({ type, values: missingValues }) });
    }
    return changes;
  }

  #mayRead(sight: Sight | undefined, { name }: AttributeType): boolean {
    return !sight || sight.all('read') || sight.allows('read', this.#partition.schema.requireDescription(name));
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
    const dns: string[] = [];
    if (gone === 'nothing') return dns;
    for (const { entry, sight } of await this.#search({ type: 'present', attribute: key.attribute })) {
      const valuesOfType = (name: string) =>
        entry.attributes
          .filter(({ type }) => type.name === name && this.#mayRead(sight, type))
          .flatMap(({ values }) => values);
      const keys = valuesOfType(key.attribute);
      const isListed = keys.length === 0 || keys.some((value) => this.#rowKeys.has(this.#normalizeKey(value)));
      const isDone = typeof gone !== 'string' && valuesOfType(gone.attribute).some((one) => String(one) === gone.value);
      if (!isListed && !isDone && !refusedDns.has(entry.dn)) dns.push(entry.dn);
    }
    return dns.sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  }

  async #search(filter: Filter): Promise<VisibleEntry[]> {
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
      const entry = await this.#partition.readById(id);
      if (entry) visibleEntries.push({ entry, sight });
    }
    return visibleEntries;
  }

  #normalizeKey(value: Buffer): string {
    return normalizerOf(this.#partition.schema.requireDescription(this.#mapping.key.attribute).type)(value);
  }
}

/** Yields the chunks unchanged. Throws `DropError` at the first chunk that is not UTF-8. */
async function* requireUtf8(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const check = (chunk?: Buffer): void => {
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
    } catch (error) {
      throw new DropError('it is not UTF-8; convert it with iconv', { cause: error });
    }
  };
  for await (const chunk of chunks) {
    check(chunk);
    yield chunk;
  }
  check();
}

interface DesiredAttribute {
  readonly type: AttributeType;
  readonly values: readonly Buffer[];
}

function toPartialAttribute({ type, values }: DesiredAttribute): PartialAttribute {
  return { type: type.name, values };
}

/** Fills the templates of an attribute. Drops empty and repeated values. */
function fillTemplates(templates: readonly string[], row: CsvRow['values']): Buffer[] {
  const values = templates.map((template) => fillTemplate(template, row).trim());
  return [...new Set(values.filter((value) => value !== ''))].map((value) => Buffer.from(value));
}

/** Returns the function that normalizes values by the equality rule of the type. */
function normalizerOf(type: AttributeType): (value: Buffer) => string {
  return (value) => (type.equality?.normalize(value) ?? value).toString('latin1');
}

function baseRecord(dn: string) {
  return { dn, controls: [], line: 0, offset: 0, text: Buffer.alloc(0) };
}

function modifyRecord({ dn }: Entry, changes: readonly Modification[]): ChangeRecord | undefined {
  return changes.length > 0 ? { ...baseRecord(dn), kind: 'modify', changes } : undefined;
}
