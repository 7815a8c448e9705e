import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { SchemaSource } from '../../schema/source.js';
import type { Guard, Maybe, RowStep, Store } from '../../store/contract.js';
import { isPromise, markHandled } from '../../store/maybe.js';
import { cellCounter, cellValue, counterBytes } from '../../store/row.js';
import { guardsHold, parseStoredJson, StoreError } from '../../store/store-error.js';
import { accessStep } from '../model/access-rows.js';
import type { DirectorySettings } from '../model/directory-types.js';
import { formatIndexRecords, type IndexRecord, IndexSet } from '../model/index-set.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { referenceTypes } from '../model/reference-rows.js';
import { schemaDigest, schemaStep } from '../model/schema-row.js';
import { refuseSecretNames } from '../model/secrets.js';
import { META_TABLE } from '../model/tables.js';
import { formatValueRules, type ValueRecords, ValueRules } from '../model/value-rules.js';
import { CELL, checkSuffix, F, FORMAT, readSuffixes, requireCell, SHARED_KEY, sharedGuard } from './shared-row.js';

/**
 * The settings and lists in the `shared` row, which all front ends use. `fresh` reads the row at most once per turn of
 * the event loop; for an embedded store, once per read snapshot. If another writer has changed the row, `fresh` parses
 * it and calls `onChange`, which clears the caches that depend on the row.
 */
export class SharedState {
  readonly #store: Store;
  readonly #schema: Schema;
  readonly #onChange: () => void;
  #row: Buffer | undefined;
  #isFresh = false;
  /** The read that this turn of the event loop shares. Unset when it is answered or the turn ends. */
  #pendingRead: Promise<void> | undefined;
  /** Numbers of reads: the last started, the last whose answer was used, and the last before `expire`. */
  #readsStarted = 0;
  #lastUsedRead = 0;
  #lastExpiredRead = 0;
  #settings!: DirectorySettings;
  #suffixes!: readonly Dn[];
  #suffixNormTexts!: ReadonlySet<string>;
  #indexes!: IndexSet;
  #valueRules!: ValueRules;
  #nameChanges!: NameChanges;
  #nameChangesBytes: Buffer | undefined;
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
  get suffixNormTexts(): ReadonlySet<string> {
    return this.#suffixNormTexts;
  }
  isSuffix(dn: Dn): boolean {
    for (const suffix of this.#suffixes)
      if (suffix.rdns.length === dn.rdns.length && suffix.norm.equals(dn.norm)) return true;
    return false;
  }
  get indexes(): IndexSet {
    return this.#indexes;
  }
  /** The constraints, number ranges and reference attributes of the directory. */
  get values(): ValueRules {
    return this.#valueRules;
  }
  /** The pending changes of names: stored references do not reflect them yet. */
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
  /** Version of the access rules in force; 0: no rules were ever set. */
  get accessVersion(): number {
    return this.#accessVersion;
  }
  /** Whether the directory has the schema of this process, or records no schema. */
  get schemaIsCurrent(): boolean {
    return this.#schemaDigest === undefined || this.#schemaDigest.equals(schemaDigest(this.#schema.source));
  }

  /** Number of the current read, and of later reads of an embedded store. See `Partition.moment`. */
  get moment(): number | undefined {
    return this.#isFresh ? this.#lastUsedRead : undefined;
  }

  /** Ensures that the state is current. Every operation calls it first. */
  fresh(): Maybe<void> {
    if (this.#isFresh) return;
    if (this.#pendingRead) return this.#pendingRead;
    const readNumber = ++this.#readsStarted;
    const row = this.#store.get(META_TABLE.name, SHARED_KEY);
    return isPromise(row)
      ? this.#shareRead(row.then((r) => this.#applyRow(r, readNumber)))
      : this.#applyRow(row, readNumber);
  }

  /** Lets all callers in this turn of the event loop share one read. */
  #shareRead(read: Promise<void>): Promise<void> {
    this.#pendingRead = read;
    setImmediate(() => {
      if (this.#pendingRead === read) this.#pendingRead = undefined;
    });
    return read;
  }

  /**
   * Calls `fresh`, then `work`, which may only read. If the store answers asynchronously, `work` starts at once on the
   * known state (`isEarly`), and runs again if the row has changed. This saves a round trip.
   */
  readFresh<T>(work: (isEarly: boolean) => Maybe<T>): Maybe<T> {
    const fresh = this.fresh();
    if (!isPromise(fresh)) return work(false);
    const rowBefore = this.#row;
    const earlyResult = markHandled(new Promise<T>((resolve) => resolve(work(true))));
    return fresh.then(() => (this.#row === rowBefore ? earlyResult : work(false)));
  }

  /** Makes the next operation read the row again, in the same turn, too. Called after a commit. */
  expire(): void {
    this.#isFresh = false;
    this.#pendingRead = undefined;
    this.#lastExpiredRead = this.#readsStarted;
  }

  /** Reads the row again, in the same turn, too. Called after a failed guard. */
  refresh(): Maybe<void> {
    this.expire();
    return this.fresh();
  }

  /** Reads may be answered in another order. An answer older than the last used one is ignored. */
  #applyRow(row: Buffer | undefined, readNumber: number): void {
    if (readNumber < this.#lastUsedRead) return;
    this.#lastUsedRead = readNumber;
    if (!this.#isFresh && readNumber > this.#lastExpiredRead) {
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
      suffixes: readSuffixes(row),
      adminDn: requireCell(row, CELL.adminDn).toString(),
      adminPassword: requireCell(row, CELL.adminPassword),
      cookieKey: requireCell(row, CELL.cookieKey),
    };
    this.#suffixes = this.#settings.suffixes.map((s) => this.#schema.parseDn(s));
    this.#suffixNormTexts = new Set(this.#suffixes.map((dn) => dn.norm.toString('latin1')));
    this.#schemaDigest = cellValue(row, F, CELL.schema);
    this.#accessVersion = Number(cellCounter(row, F, CELL.access));
    const indexes = requireCell(row, CELL.indexes);
    const values = cellValue(row, F, CELL.values);
    const hasChanged =
      !this.#valueRules || !this.#indexes.bytes.equals(indexes) || !isSameBytes(this.#valueRules.bytes, values);
    if (!this.#indexes?.bytes.equals(indexes)) this.#indexes = new IndexSet(this.#schema, indexes);
    if (!this.#valueRules || !isSameBytes(this.#valueRules.bytes, values))
      this.#valueRules = new ValueRules(this.#schema, values);
    if (hasChanged) this.#references = referenceTypes(this.#schema, this.#indexes, this.#valueRules.records.references);
    const names = cellValue(row, F, CELL.names);
    if (!this.#nameChanges || !isSameBytes(this.#nameChangesBytes, names)) {
      const place = 'cell names of row shared in table meta';
      this.#nameChanges = new NameChanges(this.#schema, names ? parseStoredJson<NameChange[]>(names, place) : []);
      this.#nameChangesBytes = names;
    }
    this.#row = row;
    this.#generation++;
    this.#onChange();
  }

  /**
   * Returns the plan step that guards the lists of indexes and value rules that the plan was made for. `isTreeChanged`:
   * increments `treeVersion`. `accessVersion`: guards the access rules. `guardsNames`: guards the pending changes of
   * names.
   */
  guardStep(isTreeChanged: boolean, accessVersion?: number, guardsNames = false): RowStep {
    const step = sharedGuard({ indexes: this.#indexes, values: this.#valueRules }, isTreeChanged);
    if (accessVersion === undefined && !guardsNames) return step;
    const guards = [...step.guards!];
    if (accessVersion !== undefined)
      guards.push({ op: 'counterEquals', family: F, qualifier: CELL.access, value: BigInt(accessVersion) });
    if (guardsNames) guards.push(...this.nameChangesGuard().guards!);
    return { ...step, guards };
  }

  /** Returns a step that only guards the pending changes of names. */
  nameChangesGuard(): RowStep {
    const cell = { family: F, qualifier: CELL.names };
    const guard: Guard = this.#nameChangesBytes
      ? { op: 'equals', ...cell, value: this.#nameChangesBytes }
      : { op: 'absent', ...cell };
    return { table: META_TABLE.name, key: SHARED_KEY, guards: [guard] };
  }

  /** Returns the plan step that replaces the pending changes of names. Guards that they have not changed. */
  nameChangesStep(changes: readonly NameChange[]): RowStep {
    const cell = { family: F, qualifier: CELL.names };
    if (changes.length === 0) return { ...this.nameChangesGuard(), delete: [cell] };
    return { ...this.nameChangesGuard(), put: [{ ...cell, value: Buffer.from(JSON.stringify(changes)) }] };
  }

  /** Replaces the list of indexes, together with other steps. Throws `StoreError` `guard` if the list has changed. */
  async setIndexes(records: readonly IndexRecord[], steps: readonly RowStep[] = []): Promise<void> {
    const put = [{ family: F, qualifier: CELL.indexes, value: formatIndexRecords(records) }];
    await this.#store.commit({ steps: [{ ...this.guardStep(false), put }, ...steps], decisive: 0 });
    await this.refresh();
  }

  /** Replaces the value rules, together with other steps. Throws `StoreError` `guard` if they have changed. */
  async setValues(records: ValueRecords, steps: readonly RowStep[] = []): Promise<void> {
    const put = [{ family: F, qualifier: CELL.values, value: formatValueRules(records) }];
    await this.#store.commit({ steps: [{ ...this.guardStep(false), put }, ...steps], decisive: 0 });
    await this.refresh();
  }

  /** Replaces the schema. Throws `StoreError` `guard` if another process has replaced it since it was read. */
  async setSchema(source: SchemaSource): Promise<void> {
    const digest = this.#schemaDigest;
    const guard: Guard = digest
      ? { op: 'equals', family: F, qualifier: CELL.schema, value: digest }
      : { op: 'absent', family: F, qualifier: CELL.schema };
    const put = [{ family: F, qualifier: CELL.schema, value: schemaDigest(source) }];
    const sharedStep = { table: META_TABLE.name, key: SHARED_KEY, guards: [guard], put };
    await this.#store.commit({ steps: [sharedStep, schemaStep(source)], decisive: 0 });
    await this.refresh();
  }

  /** Sets new access rules and returns their version. Throws `busy` if `replacedVersion` is not in force. */
  async setAccess(text: string, author: string, replacedVersion: number): Promise<number> {
    const version = replacedVersion + 1;
    const cell = { family: F, qualifier: CELL.access };
    const guards: Guard[] = [{ op: 'counterEquals', ...cell, value: BigInt(replacedVersion) }];
    const put = [{ ...cell, value: counterBytes(BigInt(version)) }];
    const sharedStep = { table: META_TABLE.name, key: SHARED_KEY, guards, put };
    const steps = [sharedStep, accessStep({ version, text, author, time: Date.now() })];
    if (!(await guardsHold(this.#store.commit({ steps, decisive: 0 }))))
      throw new LdapError('busy', 'somebody else has changed the access rules meanwhile; look at them and try again');
    await this.refresh();
    return version;
  }

  /** Sets the administrator's stored password. Returns false if `replacedHash` is given and is not the stored one. */
  async setAdminPassword(hash: Buffer, replacedHash?: Buffer): Promise<boolean> {
    const cell = { family: F, qualifier: CELL.adminPassword };
    const guards: Guard[] = replacedHash ? [{ op: 'equals', ...cell, value: replacedHash }] : [];
    return guardsHold(this.#commit(guards, [{ ...cell, value: hash }]));
  }

  async addSuffix(text: string): Promise<void> {
    const dn = this.#schema.parseDn(text);
    checkSuffix(dn, this.#suffixes);
    dn.rdns.forEach(refuseSecretNames);
    const suffixesBytes = Buffer.from(JSON.stringify(this.#settings.suffixes));
    const guards: Guard[] = [{ op: 'equals', family: F, qualifier: CELL.suffixes, value: suffixesBytes }];
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

function isSameBytes(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && a.equals(b));
}
