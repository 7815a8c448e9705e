import { LdapError } from '../../ldap/ldap-error.js';
import type { LdifContent, LdifDetachedValue, LdifFailure, LdifRecord } from '../../ldif/index.js';
import { isComputed, type Partition, storeFailureOf } from '../../partition/index.js';
import type { Actor, LoadEntry, LoadReject, LoadSource } from '../../partition/model/directory-types.js';
import type { PasswordPolicy } from '../../password/index.js';
import { applyChange, type ChangeRecord } from '../../records/apply.js';
import { ImportedPasswords, PasswordCounts } from '../../records/passwords.js';
import type { ImportJournal } from './journal.js';
import { RefusalCounts, type RejectedRecord, type RejectsFile } from './rejects.js';
import type { RecordSource } from './source.js';
import { StateCounts, stripStateOptions } from './state-options.js';

const JOURNAL_INTERVAL_MS = 200;
/** Number of empty places after which the queue of open records is shortened. */
const MAX_EMPTY_PLACES = 1000;
/** Bytes of refused records that may wait. Beyond, the load ends, which settles the records before them. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** Bytes that a record takes besides its text, roughly. */
const RECORD_BYTES = 512;

export interface ImportOptions {
  readonly policy: PasswordPolicy;
  readonly continue: boolean;
  /** Resumes an interrupted import: records before `doneOffset` are skipped, existing entries count as loaded. */
  readonly resume: { readonly doneOffset: number } | undefined;
  /** `doneOffset`: byte offset of the last record that was loaded, applied or refused. */
  readonly onProgress: (records: number, phase: string, doneOffset: number) => void;
}

export class ImportOutcome {
  loadedCount = 0;
  changeCount = 0;
  rejectedCount = 0;
  readonly refusals = new RefusalCounts();
  /** Size of the file, or of standard input. */
  byteCount = 0;
  /** Comments of an audit log that tell of secret or long values which the log lacks. */
  leftOutCount = 0;
  /** Entries that the interrupted import had loaded before. */
  existingCount = 0;
  /** Counts for loaded entries and applied changes. */
  readonly passwordCounts = new PasswordCounts();
  /** Attributes that are not stored, since the server computes them on demand. */
  omittedCount = 0;
  firstOmitted: { readonly line: number; readonly attribute: string } | undefined;
  readonly stateCounts = new StateCounts();
  /** The first refused record in the order of the file, where the import ends. */
  fatalRefusal: { readonly line: number; readonly offset: number; readonly reason: string } | undefined;
}

function isContent(record: LdifRecord): record is LdifContent | LdifFailure {
  return record.kind === 'content' || record.kind === 'error';
}

function isChange(record: LdifRecord): boolean {
  return !isContent(record);
}

const NO_DETACHED_VALUES: readonly LdifDetachedValue[] = [];

/** A record on its way through the bulk loader. */
class LoadedRecord implements RejectedRecord {
  readonly line: number;
  /** Byte offset of the record in the file. */
  readonly offset: number;
  readonly text: Buffer;
  readonly detachedValues: readonly LdifDetachedValue[];
  passwordCounts: PasswordCounts | undefined;
  /** Undefined when no value of the record has state options. */
  stateCounts: StateCounts | undefined;
  omittedAttributes: string[] | undefined;
  /** Whether the record is loaded or refused. */
  isSettled = false;
  /** Why the record is refused. */
  refusal: string | undefined;

  /** Bytes of memory of the record. */
  get size(): number {
    return this.detachedValues.reduce((sum, { value }) => sum + value.length, this.text.length + RECORD_BYTES);
  }

  constructor({ line, offset, text, detachedValues = NO_DETACHED_VALUES }: LdifContent | LdifFailure) {
    this.line = line;
    this.offset = offset;
    this.text = text;
    this.detachedValues = detachedValues;
  }
}

function toLoadedRecord(entry: LoadSource): LoadedRecord {
  if (entry instanceof LoadedRecord) return entry;
  throw new TypeError('the loader gave back an entry that it was not given');
}

/** Imports the records of a source: content records through the bulk loader, change records singly. */
export class Importer {
  readonly #partition: Partition;
  readonly #source: RecordSource;
  readonly #rejects: RejectsFile | undefined;
  readonly #journal: ImportJournal | undefined;
  readonly #options: ImportOptions;
  readonly #actor: Actor;
  readonly #passwords: ImportedPasswords;
  readonly #outcome = new ImportOutcome();
  #lastJournalWriteMs = performance.now();
  /** Byte offset of the last record that was loaded, applied or refused. */
  #doneOffset = 0;
  /** The records of the loader in the order of the file; undefined for those that are settled, like all before them. */
  #openRecords: (LoadedRecord | undefined)[] = [];
  /** Number of leading places of `#openRecords` that are undefined. */
  #emptyPlaces = 0;
  /** Bytes of refused records behind one that is not settled. */
  #waitingBytes = 0;
  /** Whether a record is refused that ends the import. */
  #isEnding = false;

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
    this.#journal?.write(this.#options.resume?.doneOffset ?? 0);
    while (!this.#isEnding && (await this.#source.hasNextRecord())) {
      await this.#loadEntries();
      await this.#applyChanges();
    }
    await this.#source.close();
    this.#outcome.byteCount = this.#source.byteCount;
    this.#outcome.leftOutCount = this.#source.leftOutCount;
    this.#rejects?.close();
    const { fatalRefusal, rejectedCount } = this.#outcome;
    if (rejectedCount === 0) this.#rejects?.removeEarlier();
    if (fatalRefusal) this.#journal?.write(fatalRefusal.offset + 1, fatalRefusal.line);
    else this.#journal?.remove();
    return this.#outcome;
  }

  #isBeforeResume(record: LdifRecord): boolean {
    return this.#options.resume !== undefined && record.offset < this.#options.resume.doneOffset;
  }

  #reject(record: RejectedRecord & { readonly offset: number }, reason: string): void {
    const { line, offset } = record;
    this.#outcome.rejectedCount++;
    this.#outcome.refusals.add(line, reason);
    this.#rejects?.write(record, reason);
    if (this.#options.continue) return;
    this.#isEnding = true;
    this.#outcome.fatalRefusal ??= { line, offset, reason };
  }

  /** The loader tells refusals out of order: some before a record is written, some after. */
  #settle(record: LoadedRecord, refusal: string | undefined): void {
    record.isSettled = true;
    record.refusal = refusal;
    if (refusal !== undefined && !this.#options.continue) this.#isEnding = true;
    if (refusal !== undefined) this.#waitingBytes += record.size;
    for (let first = this.#firstOpen(); first?.isSettled; first = this.#firstOpen()) {
      this.#openRecords[this.#emptyPlaces++] = undefined;
      this.#reportRefusal(first);
    }
    if (this.#emptyPlaces < MAX_EMPTY_PLACES) return;
    this.#openRecords = this.#openRecords.slice(this.#emptyPlaces);
    this.#emptyPlaces = 0;
  }

  #firstOpen(): LoadedRecord | undefined {
    return this.#openRecords[this.#emptyPlaces];
  }

  #reportRefusal(record: LoadedRecord): void {
    if (record.refusal === undefined) return;
    this.#waitingBytes -= record.size;
    this.#reject(record, record.refusal);
  }

  /** Reports the refusals behind the record that ended the load. */
  #endLoad(): void {
    for (const record of this.#openRecords) if (record) this.#reportRefusal(record);
    this.#openRecords = [];
    this.#emptyPlaces = 0;
  }

  /**
   * Yields content records in batches until a change record, the end of the file, a fatal refusal, or too many refusals
   * that wait.
   */
  async *#contentBatches(): AsyncGenerator<LoadEntry[]> {
    while (!this.#isEnding && this.#waitingBytes < MAX_WAITING_BYTES && (await this.#source.hasNextRecord())) {
      const records = this.#source.takeWhile(isContent);
      if (records.length === 0) return;
      const entries = this.#toEntries(records);
      records.length = 0;
      yield entries;
      // Releases long values before the next records are read.
      entries.length = 0;
    }
  }

  #toEntries(records: readonly LdifRecord[]): LoadEntry[] {
    const entries: LoadEntry[] = [];
    for (const record of records) {
      if (this.#isEnding) break;
      if (this.#isBeforeResume(record) || !isContent(record)) continue;
      const source = new LoadedRecord(record);
      this.#openRecords.push(source);
      if (record.kind === 'error') this.#settle(source, record.reason);
      else {
        const entry = this.#toEntry(record, source);
        if (entry) entries.push(entry);
      }
    }
    return entries;
  }

  /** Returns undefined when the record is refused because of its passwords. */
  #toEntry(record: LdifContent, source: LoadedRecord): LoadEntry | undefined {
    const { line, dn } = record;
    const stateCounts = new StateCounts();
    const attributes = stripStateOptions(this.#partition.schema, line, record.attributes, stateCounts);
    if (stateCounts.firstAttribute) source.stateCounts = stateCounts;
    if (!this.#passwords.hasPasswords(attributes)) return { line, dn, attributes, source };
    const passwordCounts = new PasswordCounts();
    source.passwordCounts = passwordCounts;
    try {
      return { line, dn, attributes: this.#passwords.convertAdd(dn, attributes, passwordCounts), source };
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      this.#settle(source, error.message);
      return undefined;
    }
  }

  async #loadEntries(): Promise<void> {
    const previousCount = this.#outcome.loadedCount;
    const { loaded } = await this.#partition.load(this.#contentBatches(), this.#actor, {
      continue: this.#options.continue || ((result) => this.#isLoadedBefore(result)),
      onReject: (reject) => this.#handleReject(reject),
      onLeftOut: (entry, attribute) => {
        const source = toLoadedRecord(entry);
        source.omittedAttributes ??= [];
        source.omittedAttributes.push(attribute);
      },
      onLoaded: (entry) => this.#countEntry(toLoadedRecord(entry)),
      onProgress: (progress) => this.#options.onProgress(previousCount + progress.loaded, 'entries', this.#doneOffset),
    });
    this.#outcome.loadedCount = previousCount + loaded;
    this.#endLoad();
  }

  #handleReject({ entry, reason, result }: LoadReject): void {
    const source = toLoadedRecord(entry);
    this.#doneOffset = Math.max(this.#doneOffset, source.offset);
    const isLoadedBefore = this.#isLoadedBefore(result);
    if (isLoadedBefore) this.#outcome.existingCount++;
    this.#settle(source, isLoadedBefore ? undefined : reason);
  }

  /** Whether a refusal means that the interrupted import has loaded the entry. */
  #isLoadedBefore(result: LoadReject['result']): boolean {
    return this.#options.resume !== undefined && result === 'entryAlreadyExists';
  }

  #countEntry(record: LoadedRecord): void {
    const { line, offset, passwordCounts, stateCounts, omittedAttributes } = record;
    this.#settle(record, undefined);
    this.#doneOffset = Math.max(this.#doneOffset, offset);
    if (passwordCounts) this.#outcome.passwordCounts.add(passwordCounts);
    if (stateCounts) this.#outcome.stateCounts.add(stateCounts);
    if (omittedAttributes) for (const attribute of omittedAttributes) this.#countOmitted(line, attribute);
  }

  async #applyChanges(): Promise<void> {
    while (!this.#isEnding && (await this.#source.hasNextRecord())) {
      const changes = this.#source.takeWhile(isChange);
      if (changes.length === 0) return;
      for (const change of changes) {
        if (this.#isEnding) return;
        if (!this.#isBeforeResume(change)) await this.#applyRecord(change as ChangeRecord);
      }
    }
  }

  #countOmitted(line: number, attribute: string): void {
    this.#outcome.omittedCount++;
    this.#outcome.firstOmitted ??= { line, attribute };
  }

  /** Removes attributes of a new entry that are not stored. `omittedAttributes` and `stateCounts` receive them. */
  #omitComputed(change: ChangeRecord, omittedAttributes: string[], stateCounts: StateCounts): ChangeRecord {
    if (change.kind !== 'add') return change;
    const { schema } = this.#partition;
    const attributes = stripStateOptions(schema, change.line, change.attributes, stateCounts).filter(({ type }) => {
      const isComputedType = isComputed(schema.requireDescription(type).type);
      if (isComputedType) omittedAttributes.push(type);
      return !isComputedType;
    });
    return { ...change, attributes };
  }

  async #applyRecord(change: ChangeRecord): Promise<void> {
    this.#writeJournal(change.offset);
    const counts = new PasswordCounts();
    const omittedAttributes: string[] = [];
    const stateCounts = new StateCounts();
    try {
      await applyChange(
        this.#partition,
        this.#omitComputed(change, omittedAttributes, stateCounts),
        this.#actor,
        this.#passwords,
        counts,
      );
      this.#outcome.changeCount++;
      this.#outcome.stateCounts.add(stateCounts);
      this.#outcome.passwordCounts.add(counts);
      for (const attribute of omittedAttributes) this.#countOmitted(change.line, attribute);
    } catch (error) {
      // A store failure is not the fault of the record: the import ends and can be resumed.
      if (!(error instanceof LdapError) || storeFailureOf(error)) throw error;
      this.#reject(change, `${error.result}: ${error.message}`);
    }
    this.#doneOffset = change.offset;
    this.#options.onProgress(this.#outcome.loadedCount + this.#outcome.changeCount, 'changes', this.#doneOffset);
  }

  /** Records progress in the journal, at intervals: a resumed import skips records before `doneOffset`. */
  #writeJournal(doneOffset: number): void {
    const now = performance.now();
    if (!this.#journal || now - this.#lastJournalWriteMs < JOURNAL_INTERVAL_MS) return;
    this.#lastJournalWriteMs = now;
    this.#journal.write(doneOffset);
  }
}
