import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { SchemaSource } from '../../schema/source.js';
import type { Guard, Maybe, RowStep, Store } from '../../store/contract.js';
import { isPromise, markHandled } from '../../store/maybe.js';
import { cellCounter, cellValue, counterBytes } from '../../store/row.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { accessStep } from '../model/access-rows.js';
import type { DirectorySettings } from '../model/directory-types.js';
import { formatIndexRecords, type IndexRecord, IndexSet } from '../model/index-set.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { referenceTypes } from '../model/reference-types.js';
import { schemaDigest, schemaStep } from '../model/schema-row.js';
import { refuseSecretNames } from '../model/secrets.js';
import { META_TABLE } from '../model/tables.js';
import { formatValueRules, type ValueRecords, ValueRules } from '../model/value-rules.js';
import { checkSuffix } from './directory-names.js';
import { CELL, F, FORMAT, requireCell, SHARED_KEY, sharedGuard } from './shared-row.js';

/**
 * State that all front ends share, as stored in the `shared` row. `fresh` reads the row at most once per turn of the
 * event loop (for an embedded store, whenever its read snapshot moves on). If another writer has changed the row,
 * `fresh` parses it and calls `onChange`, which drops the caches that depend on the row.
 */
export class SharedState {
  readonly #store: Store;
  readonly #schema: Schema;
  readonly #onChange: () => void;
  #row: Buffer | undefined;
  #isFresh = false;
  /** The pending read of this turn, until its answer or the end of the turn. */
  #pendingRead: Promise<void> | undefined;
  /** Numbers of reads: the last started, the last whose answer was used, and the last before `expire`. */
  #readsStarted = 0;
  #lastUsed = 0;
  #lastExpired = 0;
  #settings!: DirectorySettings;
  #suffixes!: readonly Dn[];
  #suffixNorms!: ReadonlySet<string>;
  #indexes!: IndexSet;
  #values!: ValueRules;
  #nameChanges!: NameChanges;
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
  /** Normalized DNs of the suffixes as latin-1 text. */
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
  /** Demands of the directory on values. */
  get values(): ValueRules {
    return this.#values;
  }
  /** Changes of names that stored references do not reflect yet. */
  get nameChanges(): NameChanges {
    return this.#nameChanges;
  }
  /** Attributes whose values follow the names of entries. */
  get references(): ReadonlySet<AttributeType> {
    return this.#references;
  }
  /** Number of times the row has changed. */
  get generation(): number {
    return this.#generation;
  }
  /** Version of the access rules in force; 0: none were ever set. */
  get accessVersion(): number {
    return this.#accessVersion;
  }
  /** True if the directory's schema is the one that this process uses, or is not recorded. */
  get schemaIsCurrent(): boolean {
    return this.#schemaDigest === undefined || this.#schemaDigest.equals(schemaDigest(this.#schema.source));
  }

  /** Number of the read that is valid in this turn of the event loop, as are later reads of an embedded store. */
  get moment(): number | undefined {
    return this.#isFresh ? this.#lastUsed : undefined;
  }

  /** Ensures that the state is current. Must be called first in every operation. */
  fresh(): Maybe<void> {
    if (this.#isFresh) return;
    if (this.#pendingRead) return this.#pendingRead;
    const asked = ++this.#readsStarted;
    const row = this.#store.get(META_TABLE.name, SHARED_KEY);
    return isPromise(row) ? this.#share(row.then((r) => this.#apply(r, asked))) : this.#apply(row, asked);
  }

  /** Shares one read among all callers of this turn. */
  #share(asking: Promise<void>): Promise<void> {
    this.#pendingRead = asking;
    setImmediate(() => {
      if (this.#pendingRead === asking) this.#pendingRead = undefined;
    });
    return asking;
  }

  /**
   * Calls `fresh`, then `work`, which may only read. If the store answers late, `work` starts at once (`early`) on the
   * known state, and runs again if the row turns out to have changed. This saves one round trip.
   */
  readFresh<T>(work: (early: boolean) => Maybe<T>): Maybe<T> {
    const fresh = this.fresh();
    if (!isPromise(fresh)) return work(false);
    const known = this.#row;
    const early = markHandled(new Promise<T>((resolve) => resolve(work(true))));
    return fresh.then(() => (this.#row === known ? early : work(false)));
  }

  /** Called after a commit: reads of this turn may be outdated. */
  expire(): void {
    this.#isFresh = false;
    this.#pendingRead = undefined;
    this.#lastExpired = this.#readsStarted;
  }

  /** Reads the row again even within a turn. Called after a failed guard. */
  refresh(): Maybe<void> {
    this.expire();
    return this.fresh();
  }

  /** Answers may overtake each other. An answer older than the last one used is dropped. */
  #apply(row: Buffer | undefined, asked: number): void {
    if (asked < this.#lastUsed) return;
    this.#lastUsed = asked;
    if (!this.#isFresh && asked > this.#lastExpired) {
      this.#isFresh = true;
      setImmediate(() => {
        this.#isFresh = false;
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
    if (!this.#nameChanges || !isSame(this.#namesBytes, names)) {
      this.#nameChanges = new NameChanges(this.#schema, names ? (JSON.parse(names.toString()) as NameChange[]) : []);
      this.#namesBytes = names;
    }
    this.#row = row;
    this.#generation++;
    this.#onChange();
  }

  /**
   * Returns the plan step that guards the lists of indexes and value rules that the plan was made for. `moved` marks
   * the tree as changed. Optional guards: the version of the access rules, and the pending changes of names.
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

  /** Returns only the guard of the pending changes of names. */
  namesGuard(): RowStep {
    const cell = { family: F, qualifier: CELL.names };
    const guard: Guard = this.#namesBytes
      ? { op: 'equals', ...cell, value: this.#namesBytes }
      : { op: 'absent', ...cell };
    return { table: META_TABLE.name, key: SHARED_KEY, guards: [guard] };
  }

  /** Returns the plan step that replaces the pending changes of names, guarded by the known changes. */
  namesStep(changes: readonly NameChange[]): RowStep {
    const cell = { family: F, qualifier: CELL.names };
    if (changes.length === 0) return { ...this.namesGuard(), delete: [cell] };
    return { ...this.namesGuard(), put: [{ ...cell, value: Buffer.from(JSON.stringify(changes)) }] };
  }

  /** Marks the tree as changed, for callers that rewrite large parts of it. */
  async bumpTreeVersion(): Promise<void> {
    await this.#commit([], [], [{ family: F, qualifier: CELL.treeVersion, by: 1n }]);
  }

  /** Replaces the list of indexes together with other steps. Throws `StoreError` `guard` if the list has changed. */
  async setIndexes(records: readonly IndexRecord[], more: readonly RowStep[] = []): Promise<void> {
    const put = [{ family: F, qualifier: CELL.indexes, value: formatIndexRecords(records) }];
    await this.#store.commit({ steps: [{ ...this.guardStep(false), put }, ...more], decisive: 0 });
    await this.refresh();
  }

  /** Replaces the value rules together with other steps. Throws `StoreError` `guard` if they have changed. */
  async setValues(records: ValueRecords, more: readonly RowStep[] = []): Promise<void> {
    const put = [{ family: F, qualifier: CELL.values, value: formatValueRules(records) }];
    await this.#store.commit({ steps: [{ ...this.guardStep(false), put }, ...more], decisive: 0 });
    await this.refresh();
  }

  /** Replaces the schema. Throws `StoreError` `guard` if the directory's schema has changed since it was read. */
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

  /** Replaces version `instead` of the access rules and returns the new version, or throws `busy`. */
  async setAccess(text: string, by: string, instead: number): Promise<number> {
    const version = instead + 1;
    const cell = { family: F, qualifier: CELL.access };
    const guards: Guard[] = [{ op: 'counterEquals', ...cell, value: BigInt(instead) }];
    const put = [{ ...cell, value: counterBytes(BigInt(version)) }];
    const shared = { table: META_TABLE.name, key: SHARED_KEY, guards, put };
    const steps = [shared, accessStep({ version, text, author: by, time: Date.now() })];
    if (!(await guardsHold(this.#store.commit({ steps, decisive: 0 }))))
      throw new LdapError('busy', 'somebody else has changed the access rules meanwhile; look at them and try again');
    await this.refresh();
    return version;
  }

  /** Sets the administrator's stored password. Returns false if the current one is not `instead`, if given. */
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
