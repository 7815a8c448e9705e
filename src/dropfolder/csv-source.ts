import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { LdapError } from '../ldap/ldap-error.js';
import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import { formatChange } from '../ldif/index.js';
import { EVERYTHING, type Partition, UNRESTRICTED } from '../partition/index.js';
import type { Access, Entry } from '../partition/model/directory-types.js';
import type { Refusal } from '../partition/model/drop-rows.js';
import type { Sight } from '../partition/model/viewer.js';
import type { ChangeRecord } from '../records/apply.js';
import type { AttributeType } from '../schema/schema-types.js';
import { columnsOf, filled, type Mapping } from './csv-mapping.js';
import { DropError } from './layout.js';
import { chunksOf, type Item, type RecordSource, refusalComment } from './source.js';

/** Bytes of one row. */
const MAX_ROW = 1024 * 1024;

/** An entry as far as those may see it by whose rights files are applied. */
interface Seen {
  readonly entry: Entry;
  /** Undefined: all of it. */
  readonly sight: Sight | undefined;
}

interface Row {
  /** Where it ends. */
  readonly line: number;
  readonly values: Readonly<Record<string, string>>;
}

/**
 * Rows of a CSV file, each of which is what brings its entry to what the row says, and then the entries whose row has
 * gone. What that is is worked out when it is done: a row that says what is there already changes nothing. What those
 * by whose rights it is done may not see is not there, and what they may not read is not as the row says: the change is
 * then tried, and refused to them.
 */
export class CsvSource implements RecordSource {
  readonly #file: FileHandle;
  readonly #partition: Partition;
  readonly #mapping: Mapping;
  readonly #access: Access | undefined;
  /** Of the rows, as the key attribute compares values. */
  readonly #keys = new Set<string>();
  #rows = 0;

  private constructor(file: FileHandle, partition: Partition, mapping: Mapping, access: Access | undefined) {
    this.#file = file;
    this.#partition = partition;
    this.#mapping = mapping;
    this.#access = access;
  }

  /**
   * Reads the file once. Throws `DropError` where it is no CSV, lacks a column, or would take too many entries away.
   * `access`: of those by whose rights it is done; undefined: of the administrator.
   */
  static async open(
    file: FileHandle,
    partition: Partition,
    mapping: Mapping,
    access: Access | undefined,
  ): Promise<CsvSource> {
    const source = new CsvSource(file, partition, mapping, access);
    await source.#check();
    return source;
  }

  async #check(): Promise<void> {
    const { key, gone, mostGone } = this.#mapping;
    const columns = columnsOf(this.#mapping);
    for await (const { line, values } of this.#read()) {
      const missing = this.#rows++ === 0 ? [...columns].filter((column) => !Object.hasOwn(values, column)) : [];
      if (missing.length > 0)
        throw new DropError(`it has no column '${missing.join("', '")}', which the mapping names`);
      const value = filled(`{${key.column}}`, values);
      const name = this.#keyName(Buffer.from(value));
      if (value === '') throw new DropError(`line ${line} has no '${key.column}', which tells whose row it is`);
      if (this.#keys.has(name))
        throw new DropError(`line ${line} has a '${key.column}' that another row has; drop one`);
      this.#keys.add(name);
    }
    if (gone === 'nothing') return;
    if (this.#rows === 0) throw new DropError('it has no rows, and all entries would go; drop a file with rows');
    const { length } = await this.#gone(new Set());
    if (length <= mostGone) return;
    throw new DropError(
      `${length} entries have no row in it, and at most ${mostGone} may go at once; raise mostGone in the mapping if they shall`,
    );
  }

  async *#read(): AsyncGenerator<Row> {
    const { delimiter } = this.#mapping;
    let stream: Readable | undefined;
    try {
      const parser = parse({
        bom: true,
        columns: true,
        delimiter,
        info: true,
        maxRecordSize: MAX_ROW,
        skipEmptyLines: true,
      });
      stream = Readable.from(utf8Of(chunksOf(this.#file)));
      stream.on('error', (error) => parser.destroy(error));
      for await (const { record, info } of stream.pipe(parser)) yield { line: info.lines, values: record };
    } catch (error) {
      // The message may have values.
      if (!(error instanceof CsvError)) throw error;
      const { lines } = error as { lines?: number };
      throw new DropError(`line ${lines ?? '?'} is not as in a CSV file (${error.code}); correct it`);
    } finally {
      stream?.destroy();
    }
  }

  async *items(done: number, refused: ReadonlySet<string> = new Set()): AsyncGenerator<Item> {
    let number = 0;
    if (done < this.#rows)
      for await (const { line, values } of this.#read())
        if (number++ >= done) yield { line, change: () => this.#changeOf(values) };
    for (const dn of await this.#gone(refused)) yield { line: 0, dn, change: () => this.#removal(dn) };
  }

  async *rejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer> {
    const byNumber = new Map(refusals.map((refusal) => [refusal.number, refusal]));
    let number = 0;
    for await (const { values } of this.#read()) {
      const refusal = byNumber.get(number++);
      if (refusal) yield* this.#reject(refusal, () => this.#changeOf(values));
    }
    for (const refusal of refusals)
      if (refusal.dn !== undefined) yield* this.#reject(refusal, async () => this.#removal(refusal.dn!));
  }

  async *#reject(refusal: Refusal, change: () => Promise<ChangeRecord | undefined>): AsyncGenerator<Buffer> {
    yield refusalComment(refusal);
    try {
      const record = await change();
      if (record) yield formatChange(record);
    } catch (error) {
      // Why there is none is in the comment.
      if (!(error instanceof LdapError)) throw error;
    }
    yield Buffer.from('\n');
  }

  /** What brings the row's entry to what the row says; undefined: it is so. */
  async #changeOf(row: Row['values']): Promise<ChangeRecord | undefined> {
    const { key, attributes, constants, dn } = this.#mapping;
    const value = Buffer.from(filled(`{${key.column}}`, row));
    const [seen, ...others] = await this.#find({ type: 'equal', attribute: key.attribute, value });
    if (others.length > 0)
      throw new LdapError('constraintViolation', `several entries have this ${key.attribute}; let one have it`);
    const wanted = [...attributes].map(([type, templates]) => ({ type, values: valuesOf(templates, row) }));
    const fixed = [...constants].map(([type, values]) => ({ type, values: values.map((one) => Buffer.from(one)) }));
    if (seen) return changed(seen.entry, this.#differences(seen, wanted, fixed));
    const made = [...fixed, ...wanted].filter(({ values }) => values.length > 0).map(named);
    return { ...record(filled(dn, row, true)), kind: 'add', attributes: made };
  }

  /** A secret is given to a new entry, and not compared; what names the entry stays. */
  #differences({ entry, sight }: Seen, wanted: readonly Wanted[], fixed: readonly Wanted[]): Modification[] {
    const naming = new Set(this.#partition.schema.parseDn(entry.dn).rdns[0]!.avas.map(({ type }) => type));
    const changes: Modification[] = [];
    const has = (type: AttributeType) =>
      new Set(entry.attributes.filter((one) => one.type === type).flatMap(({ values }) => values.map(nameOf(type))));
    for (const { type, values } of wanted) {
      if (type.secret || naming.has(type)) continue;
      const names = new Set(values.map(nameOf(type)));
      const known = has(type);
      if (this.#mayRead(sight, type) && names.size === known.size && [...names].every((name) => known.has(name)))
        continue;
      changes.push({ operation: 'replace', attribute: named({ type, values }) });
    }
    for (const { type, values } of fixed) {
      const known = this.#mayRead(sight, type) ? has(type) : new Set<string>();
      const missing = type.secret ? [] : values.filter((value) => !known.has(nameOf(type)(value)));
      if (missing.length > 0) changes.push({ operation: 'add', attribute: named({ type, values: missing }) });
    }
    return changes;
  }

  #mayRead(sight: Sight | undefined, { name }: AttributeType): boolean {
    return !sight || sight.all('read') || sight.allows('read', this.#partition.schema.requireDescription(name));
  }

  #removal(dn: string): ChangeRecord | undefined {
    const { gone } = this.#mapping;
    if (typeof gone === 'string') return { ...record(dn), kind: 'delete' };
    const attribute = { type: gone.attribute, values: [Buffer.from(gone.value)] };
    return { ...record(dn), kind: 'modify', changes: [{ operation: 'replace', attribute }] };
  }

  /**
   * DNs of the entries whose row has gone and that are as they were; the lowest first. None of which the key may not be
   * read: there may be a row for it.
   */
  async #gone(refused: ReadonlySet<string>): Promise<string[]> {
    const { key, gone } = this.#mapping;
    const found: string[] = [];
    if (gone === 'nothing') return found;
    for (const { entry, sight } of await this.#find({ type: 'present', attribute: key.attribute })) {
      const valuesOfType = (name: string) =>
        entry.attributes
          .filter(({ type }) => type.name === name && this.#mayRead(sight, type))
          .flatMap(({ values }) => values);
      const keys = valuesOfType(key.attribute);
      const isListed = keys.length === 0 || keys.some((value) => this.#keys.has(this.#keyName(value)));
      const isDone = typeof gone !== 'string' && valuesOfType(gone.attribute).some((one) => String(one) === gone.value);
      if (!isListed && !isDone && !refused.has(entry.dn)) found.push(entry.dn);
    }
    return found.sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  }

  async #find(filter: Filter): Promise<Seen[]> {
    const found: { id: Buffer; sight: Sight | undefined }[] = [];
    this.#partition.renewReads();
    await this.#access?.renew();
    const viewer = this.#access?.viewer ?? UNRESTRICTED;
    await this.#partition.search(
      { ...EVERYTHING, viewer, base: this.#mapping.base, scope: 'sub', filter },
      { entry: ({ id, sight }) => void found.push({ id: Buffer.from(id), sight }), reference: () => undefined },
    );
    const seen: Seen[] = [];
    for (const { id, sight } of found) {
      const entry = await this.#partition.readById(id);
      if (entry) seen.push({ entry, sight });
    }
    return seen;
  }

  #keyName(value: Buffer): string {
    return nameOf(this.#partition.schema.requireDescription(this.#mapping.key.attribute).type)(value);
  }
}

/** The chunks as they are. Throws `DropError` before one that has bytes that are no UTF-8. */
async function* utf8Of(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
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

interface Wanted {
  readonly type: AttributeType;
  readonly values: readonly Buffer[];
}

function named({ type, values }: Wanted): PartialAttribute {
  return { type: type.name, values };
}

/** Values that are empty are none. */
function valuesOf(templates: readonly string[], row: Row['values']): Buffer[] {
  const values = templates.map((template) => filled(template, row).trim());
  return [...new Set(values.filter((value) => value !== ''))].map((value) => Buffer.from(value));
}

/** As the type compares values. */
function nameOf(type: AttributeType): (value: Buffer) => string {
  return (value) => (type.equality?.normalize(value) ?? value).toString('latin1');
}

function record(dn: string) {
  return { dn, controls: [], line: 0, offset: 0, text: Buffer.alloc(0) };
}

function changed({ dn }: Entry, changes: readonly Modification[]): ChangeRecord | undefined {
  return changes.length > 0 ? { ...record(dn), kind: 'modify', changes } : undefined;
}
