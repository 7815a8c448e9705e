import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { SchemaSource } from '../../schema/source.js';
import type { Guard, Maybe, RowStep, Store } from '../../store/contract.js';
import { awaitedLater, isPromise } from '../../store/maybe.js';
import { cellCounter, cellValue, counterBytes } from '../../store/row.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { accessStep } from '../model/access-rows.js';
import type { DirectorySettings } from '../model/directory-types.js';
import { formatRecords, type IndexRecord, IndexSet } from '../model/index-set.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { referenceTypes } from '../model/reference-types.js';
import { schemaDigest, schemaStep } from '../model/schema-row.js';
import { refuseSecretNames } from '../model/secrets.js';
import { META_TABLE } from '../model/tables.js';
import { formatValueRules, type ValueRecords, ValueRules } from '../model/value-rules.js';
import { checkSuffix } from './directory-names.js';
import { CELL, F, FORMAT, requireCell, SHARED_KEY, sharedGuard } from './shared-row.js';

/**
 * What all front ends share, as the `shared` row has it. `fresh` reads the row at most once a turn of the event loop
 * (for an embedded store, as often as its read snapshot moves on) and, when another writer has changed it, parses it
 * anew and calls `onChange`, which drops the caches that depend on it.
 */
export class SharedState {
  readonly #store: Store;
  readonly #schema: Schema;
  readonly #onChange: () => void;
  #row: Buffer | undefined;
  #checked = false;
  /** The read that was asked for in this turn, until its answer or the turn's end. */
  #asking: Promise<void> | undefined;
  /** Reads of the row asked for, the last one of them whose answer was taken, and the last before `expire`. */
  #asked = 0;
  #taken = 0;
  #expired = 0;
  #settings!: DirectorySettings;
  #suffixes!: readonly Dn[];
  #suffixNorms!: ReadonlySet<string>;
  #indexes!: IndexSet;
  #values!: ValueRules;
  #names!: NameChanges;
  #namesBytes: Buffer | undefined;
  #references!: ReadonlySet<AttributeType>;
  #schemaDigest: Buffer | undefined;
  #accessVersion = 0;
  #generation = 0;

  constructor(store: Store, schema: Schema, onChange: () => void) {
    this.#store = store;
    this.#schema = schema;
    this.#onChange = onChange;
  }

  get settings(): DirectorySettings {
    return this.#settings;
  }
  get suffixes(): readonly Dn[] {
    return this.#suffixes;
  }
  /** Normalized DNs as latin-1 text. */
  get suffixNorms(): ReadonlySet<string> {
    return this.#suffixNorms;
  }
  isSuffix(dn: Dn): boolean {
    for (const suffix of this.#suffixes)
      if (suffix.rdns.length === dn.rdns.length && suffix.norm.equals(dn.norm)) return true;
    return false;
  }
  get indexes(): IndexSet {
    return this.#indexes;
  }
  /** What the directory demands of values. */
  get values(): ValueRules {
    return this.#values;
  }
  /** Changes of names that references have not followed yet. */
  get names(): NameChanges {
    return this.#names;
  }
  /** Attributes whose values follow the names of the entries that they name. */
  get references(): ReadonlySet<AttributeType> {
    return this.#references;
  }
  /** How often another row was taken. */
  get generation(): number {
    return this.#generation;
  }
  /** Version of the access rules in force; 0: none were given. */
  get accessVersion(): number {
    return this.#accessVersion;
  }
  /** The directory's schema is the one that this process works with, as far as the directory says. */
  get schemaIsCurrent(): boolean {
    return this.#schemaDigest === undefined || this.#schemaDigest.equals(schemaDigest(this.#schema.source));
  }

  /**
   * Names the read of the row that holds in this turn of the event loop, and with it what else was read of an embedded
   * store since; undefined: the row is to be read again.
   */
  get moment(): number | undefined {
    return this.#checked ? this.#taken : undefined;
  }

  /** Call first in every operation. */
  fresh(): Maybe<void> {
    if (this.#checked) return;
    if (this.#asking) return this.#asking;
    const asked = ++this.#asked;
    const row = this.#store.get(META_TABLE.name, SHARED_KEY);
    return isPromise(row) ? this.#share(row.then((r) => this.#take(r, asked))) : this.#take(row, asked);
  }

  /** All who ask in this turn wait for one answer. */
  #share(asking: Promise<void>): Promise<void> {
    this.#asking = asking;
    setImmediate(() => {
      if (this.#asking === asking) this.#asking = undefined;
    });
    return asking;
  }

  /**
   * `fresh`, then `work`, which only reads. Where the store answers late, it is done at once (`early`) on what is
   * known, and again if the row turns out to have changed: one wait instead of two.
   */
  ahead<T>(work: (early: boolean) => Maybe<T>): Maybe<T> {
    const fresh = this.fresh();
    if (!isPromise(fresh)) return work(false);
    const known = this.#row;
    const early = awaitedLater(new Promise<T>((resolve) => resolve(work(true))));
    return fresh.then(() => (this.#row === known ? early : work(false)));
  }

  /** A plan was committed: what was read in this turn may be older. */
  expire(): void {
    this.#checked = false;
    this.#asking = undefined;
    this.#expired = this.#asked;
  }

  /** Reads the row whatever was read in this turn: after a failed guard. */
  refresh(): Maybe<void> {
    this.expire();
    return this.fresh();
  }

  /** Answers may overtake each other: one that comes after a later one's is dropped. */
  #take(row: Buffer | undefined, asked: number): void {
    if (asked < this.#taken) return;
    this.#taken = asked;
    if (!this.#checked && asked > this.#expired) {
      this.#checked = true;
      setImmediate(() => {
        this.#checked = false;
      });
    }
    if (row && this.#row?.equals(row)) return;
    if (!row) throw new StoreError('format', 'the store holds no directory; create one with `rowan init`');
    const format = cellCounter(row, F, CELL.format);
    if (format > FORMAT)
      throw new StoreError(
        'format',
        `the directory has format ${format}; this version reads up to ${FORMAT}; upgrade Rowan`,
      );
    this.#settings = {
      suffixes: JSON.parse(requireCell(row, CELL.suffixes).toString()) as string[],
      adminDn: requireCell(row, CELL.adminDn).toString(),
      adminPassword: requireCell(row, CELL.adminPassword),
      cookieKey: requireCell(row, CELL.cookieKey),
    };
    this.#suffixes = this.#settings.suffixes.map((s) => this.#schema.parseDn(s));
    this.#suffixNorms = new Set(this.#suffixes.map((dn) => dn.norm.toString('latin1')));
    this.#schemaDigest = cellValue(row, F, CELL.schema);
    this.#accessVersion = Number(cellCounter(row, F, CELL.access));
    const indexes = requireCell(row, CELL.indexes);
    const values = cellValue(row, F, CELL.values);
    const isOther = !this.#values || !this.#indexes.bytes.equals(indexes) || !isSame(this.#values.bytes, values);
    if (!this.#indexes?.bytes.equals(indexes)) this.#indexes = new IndexSet(this.#schema, indexes);
    if (!this.#values || !isSame(this.#values.bytes, values)) this.#values = new ValueRules(this.#schema, values);
    if (isOther) this.#references = referenceTypes(this.#schema, this.#indexes, this.#values.records.references);
    const names = cellValue(row, F, CELL.names);
    if (!this.#names || !isSame(this.#namesBytes, names)) {
      this.#names = new NameChanges(this.#schema, names ? (JSON.parse(names.toString()) as NameChange[]) : []);
      this.#namesBytes = names;
    }
    this.#row = row;
    this.#generation++;
    this.#onChange();
  }

  /**
   * Step of a write plan: the lists of indexes and of what is demanded of values are still those that the plan was
   * made for; `moved` marks the tree as changed. With `access`: the access rules are still those of this version. With
   * `names`: the changes of names that references have not followed are still the ones known here.
   */
  guardStep(moved: boolean, access?: number, names = false): RowStep {
    const step = sharedGuard({ indexes: this.#indexes, values: this.#values }, moved);
    if (access === undefined && !names) return step;
    const guards = [...step.guards!];
    if (access !== undefined)
      guards.push({ op: 'counterEquals', family: F, qualifier: CELL.access, value: BigInt(access) });
    if (names) guards.push(...this.namesGuard().guards!);
    return { ...step, guards };
  }

  /** The guard of `names` alone. */
  namesGuard(): RowStep {
    const cell = { family: F, qualifier: CELL.names };
    const guard: Guard = this.#namesBytes
      ? { op: 'equals', ...cell, value: this.#namesBytes }
      : { op: 'absent', ...cell };
    return { table: META_TABLE.name, key: SHARED_KEY, guards: [guard] };
  }

  /** Step of a plan: puts other changes of names in place of those. */
  namesStep(changes: readonly NameChange[]): RowStep {
    const cell = { family: F, qualifier: CELL.names };
    if (changes.length === 0) return { ...this.namesGuard(), delete: [cell] };
    return { ...this.namesGuard(), put: [{ ...cell, value: Buffer.from(JSON.stringify(changes)) }] };
  }

  /** Marks the tree as changed, for what rewrites it as a whole. */
  async bumpTreeVersion(): Promise<void> {
    await this.#commit([], [], [{ family: F, qualifier: CELL.treeVersion, by: 1n }]);
  }

  /**
   * Replaces the list that `indexes` is, together with the steps that go with it; `StoreError` `guard` when it has
   * changed.
   */
  async setIndexes(records: readonly IndexRecord[], more: readonly RowStep[] = []): Promise<void> {
    const put = [{ family: F, qualifier: CELL.indexes, value: formatRecords(records) }];
    await this.#store.commit({ steps: [{ ...this.guardStep(false), put }, ...more], decisive: 0 });
    await this.refresh();
  }

  /** The same for what is demanded of values. */
  async setValues(records: ValueRecords, more: readonly RowStep[] = []): Promise<void> {
    const put = [{ family: F, qualifier: CELL.values, value: formatValueRules(records) }];
    await this.#store.commit({ steps: [{ ...this.guardStep(false), put }, ...more], decisive: 0 });
    await this.refresh();
  }

  /** `StoreError` `guard` when the directory's schema has changed since it was read. */
  async setSchema(source: SchemaSource): Promise<void> {
    const known = this.#schemaDigest;
    const guard: Guard = known
      ? { op: 'equals', family: F, qualifier: CELL.schema, value: known }
      : { op: 'absent', family: F, qualifier: CELL.schema };
    const put = [{ family: F, qualifier: CELL.schema, value: schemaDigest(source) }];
    const shared = { table: META_TABLE.name, key: SHARED_KEY, guards: [guard], put };
    await this.#store.commit({ steps: [shared, schemaStep(source)], decisive: 0 });
    await this.refresh();
  }

  /**
   * Puts the rules in force as the next version, which is resolved with. `StoreError` `guard` where the version in
   * force is not `instead`.
   */
  async setAccess(text: string, by: string, instead: number): Promise<number> {
    const version = instead + 1;
    const cell = { family: F, qualifier: CELL.access };
    const guards: Guard[] = [{ op: 'counterEquals', ...cell, value: BigInt(instead) }];
    const put = [{ ...cell, value: counterBytes(BigInt(version)) }];
    const shared = { table: META_TABLE.name, key: SHARED_KEY, guards, put };
    await this.#store.commit({ steps: [shared, accessStep({ version, text, by, time: Date.now() })], decisive: 0 });
    await this.refresh();
    return version;
  }

  /** With `instead` only in place of that one; false where it is another. */
  async setAdminPassword(stored: Buffer, instead?: Buffer): Promise<boolean> {
    const cell = { family: F, qualifier: CELL.adminPassword };
    const guards: Guard[] = instead ? [{ op: 'equals', ...cell, value: instead }] : [];
    return guardsHold(this.#commit(guards, [{ ...cell, value: stored }]));
  }

  async addSuffix(text: string): Promise<void> {
    const dn = this.#schema.parseDn(text);
    checkSuffix(dn, this.#suffixes);
    dn.rdns.forEach(refuseSecretNames);
    const before = Buffer.from(JSON.stringify(this.#settings.suffixes));
    const guards: Guard[] = [{ op: 'equals', family: F, qualifier: CELL.suffixes, value: before }];
    const value = Buffer.from(JSON.stringify([...this.#settings.suffixes, dn.text]));
    await this.#commit(guards, [{ family: F, qualifier: CELL.suffixes, value }]);
  }

  async #commit(
    guards: readonly Guard[],
    put: NonNullable<RowStep['put']>,
    add: NonNullable<RowStep['add']> = [],
  ): Promise<void> {
    await this.#store.commit({ steps: [{ table: META_TABLE.name, key: SHARED_KEY, guards, put, add }], decisive: 0 });
    await this.refresh();
  }
}

function isSame(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && a.equals(b));
}
