import { LdapError } from '../../ldap/ldap-error.js';
import type { LdifApart, LdifContent, LdifFailure, LdifRecord } from '../../ldif/index.js';
import { isComputed, type Partition, storeFailureOf } from '../../partition/index.js';
import type { Actor, LoadEntry, LoadReject, LoadSource } from '../../partition/model/directory-types.js';
import type { PasswordPolicy } from '../../password/index.js';
import { applyChange, type ChangeRecord } from '../../records/apply.js';
import { ImportedPasswords, PasswordCounts } from '../../records/passwords.js';
import type { ImportJournal } from './journal.js';
import { Refusals } from './refusals.js';
import type { Rejected, RejectsFile } from './rejects.js';
import type { RecordSource } from './source.js';
import { StateCounts, withoutState } from './state-options.js';

const JOURNAL_MS = 200;

export interface ImportOptions {
  /** What stored passwords may cost. */
  readonly policy: PasswordPolicy;
  /** Goes on after a record that is refused. */
  readonly continue: boolean;
  /**
   * Takes up an import that was interrupted: records before byte `done` are passed over, entries that exist count as
   * done.
   */
  readonly resume: { readonly done: number } | undefined;
  /** `done`: where the last record begins that was loaded, applied or refused. */
  readonly onProgress: (records: number, phase: string, done: number) => void;
}

export interface ImportOutcome {
  loaded: number;
  changed: number;
  rejected: number;
  /** What was refused, by kind. */
  readonly refusals: Refusals;
  /** Of the file, or of standard input. */
  bytes: number;
  /** Entries that an interrupted import had loaded. */
  existing: number;
  /** Of what was loaded and applied. */
  readonly passwords: PasswordCounts;
  /** Attributes that are not stored, because they are worked out when they are asked for. */
  leftOut: number;
  /** The first of them. */
  firstLeftOut: { readonly line: number; readonly attribute: string } | undefined;
  /** Of what was loaded and applied. */
  readonly state: StateCounts;
  /** The record that ended it. */
  stoppedAt: { readonly line: number; readonly reason: string } | undefined;
}

function isContent(record: LdifRecord): record is LdifContent | LdifFailure {
  return record.kind === 'content' || record.kind === 'error';
}

function isChange(record: LdifRecord): boolean {
  return !isContent(record);
}

const NOTHING_APART: readonly LdifApart[] = [];

/** The record that a load entry was made from. */
class Source implements Rejected {
  readonly line: number;
  /** Byte of the file at which the record begins. */
  readonly offset: number;
  readonly text: Buffer;
  readonly apart: readonly LdifApart[];
  /** Undefined where the record has none. */
  passwords: PasswordCounts | undefined;
  /** Undefined where nothing in the record has state options. */
  state: StateCounts | undefined;
  /** Attributes of it that are not stored. */
  leftOut: string[] | undefined;

  constructor({ line, offset, text, apart = NOTHING_APART }: LdifContent) {
    this.line = line;
    this.offset = offset;
    this.text = text;
    this.apart = apart;
  }
}

function asSource(entry: LoadSource): Source {
  if (entry instanceof Source) return entry;
  throw new TypeError('the loader gave back an entry that it was not given');
}

/** Imports the records of a source: runs of content through the bulk loader, change records one after another. */
export class Importer {
  readonly #partition: Partition;
  readonly #source: RecordSource;
  readonly #rejects: RejectsFile | undefined;
  readonly #journal: ImportJournal | undefined;
  readonly #options: ImportOptions;
  readonly #actor: Actor;
  readonly #passwords: ImportedPasswords;
  readonly #outcome: ImportOutcome = {
    loaded: 0,
    changed: 0,
    rejected: 0,
    refusals: new Refusals(),
    bytes: 0,
    existing: 0,
    passwords: new PasswordCounts(),
    leftOut: 0,
    firstLeftOut: undefined,
    state: new StateCounts(),
    stoppedAt: undefined,
  };
  #journalled = performance.now();
  /** Where the last record begins that was loaded, applied or refused. */
  #done = 0;

  constructor(
    partition: Partition,
    source: RecordSource,
    rejects: RejectsFile | undefined,
    journal: ImportJournal | undefined,
    options: ImportOptions,
  ) {
    this.#partition = partition;
    this.#passwords = new ImportedPasswords(partition.schema, options.policy);
    this.#source = source;
    this.#rejects = rejects;
    this.#journal = journal;
    this.#options = options;
    this.#actor = { dn: partition.settings.adminDn, system: true };
  }

  async run(): Promise<ImportOutcome> {
    this.#journal?.write(this.#options.resume?.done ?? 0);
    while (!this.#outcome.stoppedAt && (await this.#source.more())) {
      await this.#loadContent();
      await this.#applyChanges();
    }
    await this.#source.close();
    this.#outcome.bytes = this.#source.bytes;
    this.#rejects?.close();
    this.#journal?.remove();
    return this.#outcome;
  }

  #passedOver(record: LdifRecord): boolean {
    return this.#options.resume !== undefined && record.offset < this.#options.resume.done;
  }

  #reject(record: Rejected, reason: string): void {
    this.#outcome.rejected++;
    this.#outcome.refusals.add(record.line, reason);
    this.#rejects?.write(record, reason);
    if (!this.#options.continue) this.#outcome.stoppedAt ??= { line: record.line, reason };
  }

  /**
   * Batches for the bulk loader until a change record comes, the file ends, or a record is refused that ends it all.
   */
  async *#contentBatches(): AsyncGenerator<LoadEntry[]> {
    while (!this.#outcome.stoppedAt && (await this.#source.more())) {
      const records = this.#source.takeWhile(isContent);
      if (records.length === 0) return;
      const entries = this.#prepare(records);
      records.length = 0;
      yield entries;
      // Values may be long: they are let go of before the next are read.
      entries.length = 0;
    }
  }

  #prepare(records: readonly LdifRecord[]): LoadEntry[] {
    const entries: LoadEntry[] = [];
    for (const record of records) {
      if (this.#outcome.stoppedAt) break;
      if (this.#passedOver(record)) continue;
      if (record.kind === 'error') this.#reject(record, record.reason);
      else if (record.kind === 'content') {
        const entry = this.#entryOf(record);
        if (entry) entries.push(entry);
      }
    }
    return entries;
  }

  /** Undefined where it is refused for its passwords. */
  #entryOf(record: LdifContent): LoadEntry | undefined {
    const { line, dn } = record;
    const source = new Source(record);
    const state = new StateCounts();
    const attributes = withoutState(this.#partition.schema, line, record.attributes, state);
    if (state.first) source.state = state;
    if (!this.#passwords.hasPasswords(attributes)) return { line, dn, attributes, source };
    const passwords = new PasswordCounts();
    source.passwords = passwords;
    try {
      return { line, dn, attributes: this.#passwords.forAdd(dn, attributes, passwords), source };
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      this.#reject(record, error.message);
      return undefined;
    }
  }

  async #loadContent(): Promise<void> {
    const before = this.#outcome.loaded;
    const { loaded } = await this.#partition.load(this.#contentBatches(), this.#actor, {
      continue: this.#options.continue || ((result) => this.#isDone(result)),
      onReject: (reject) => this.#refuse(reject),
      onLeftOut: (entry, attribute) => {
        const source = asSource(entry);
        source.leftOut ??= [];
        source.leftOut.push(attribute);
      },
      onLoaded: (entry) => this.#countLoaded(asSource(entry)),
      onProgress: (progress) => this.#options.onProgress(before + progress.loaded, 'entries', this.#done),
    });
    this.#outcome.loaded = before + loaded;
  }

  #refuse({ entry, reason, result }: LoadReject): void {
    const source = asSource(entry);
    this.#done = Math.max(this.#done, source.offset);
    if (this.#isDone(result)) this.#outcome.existing++;
    else this.#reject(source, reason);
  }

  /** Whether an interrupted import has loaded an entry that is refused so. */
  #isDone(result: LoadReject['result']): boolean {
    return this.#options.resume !== undefined && result === 'entryAlreadyExists';
  }

  #countLoaded({ line, offset, passwords, state, leftOut }: Source): void {
    this.#done = Math.max(this.#done, offset);
    if (passwords) this.#outcome.passwords.add(passwords);
    if (state) this.#outcome.state.add(state);
    if (leftOut) for (const attribute of leftOut) this.#leaveOut(line, attribute);
  }

  async #applyChanges(): Promise<void> {
    while (!this.#outcome.stoppedAt && (await this.#source.more())) {
      const changes = this.#source.takeWhile(isChange);
      if (changes.length === 0) return;
      for (const change of changes) {
        if (this.#outcome.stoppedAt) return;
        if (!this.#passedOver(change)) await this.#apply(change as ChangeRecord);
      }
    }
  }

  #leaveOut(line: number, attribute: string): void {
    this.#outcome.leftOut++;
    this.#outcome.firstLeftOut ??= { line, attribute };
  }

  /** The change without the attributes of a new entry that are not stored, which `leftOut` and `state` then have. */
  #storable(change: ChangeRecord, leftOut: string[], state: StateCounts): ChangeRecord {
    if (change.kind !== 'add') return change;
    const { schema } = this.#partition;
    const attributes = withoutState(schema, change.line, change.attributes, state).filter(({ type }) => {
      const computed = isComputed(schema.requireDescription(type).type);
      if (computed) leftOut.push(type);
      return !computed;
    });
    return { ...change, attributes };
  }

  async #apply(change: ChangeRecord): Promise<void> {
    this.#note(change.offset);
    const counts = new PasswordCounts();
    const leftOut: string[] = [];
    const state = new StateCounts();
    try {
      await applyChange(this.#partition, this.#storable(change, leftOut, state), this.#actor, this.#passwords, counts);
      this.#outcome.changed++;
      this.#outcome.state.add(state);
      this.#outcome.passwords.add(counts);
      for (const attribute of leftOut) this.#leaveOut(change.line, attribute);
    } catch (error) {
      // Of a store that fails the record knows nothing: the import ends, and can be taken up again.
      if (!(error instanceof LdapError) || storeFailureOf(error)) throw error;
      this.#reject(change, `${error.result}: ${error.message}`);
    }
    this.#done = change.offset;
    this.#options.onProgress(this.#outcome.loaded + this.#outcome.changed, 'changes', this.#done);
  }

  /** Notes from time to time how far it is: what comes before byte `done` will not be done again. */
  #note(done: number): void {
    const now = performance.now();
    if (!this.#journal || now - this.#journalled < JOURNAL_MS) return;
    this.#journalled = now;
    this.#journal.write(done);
  }
}
