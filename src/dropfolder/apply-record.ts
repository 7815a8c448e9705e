import type { FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import { LdapError } from '../ldap/ldap-error.js';
import { Partition, storeFailureOf } from '../partition/index.js';
import type { Actor, AttachedSteps } from '../partition/model/directory-types.js';
import type { PasswordPolicy } from '../password/index.js';
import { applyChange, type ChangeRecord } from '../records/apply.js';
import { ImportedPasswords, PasswordCounts } from '../records/passwords.js';
import type { Dn } from '../schema/schema-types.js';
import { withTrialStore } from '../store/trial.js';
import { readMapping } from './csv-mapping.js';
import { CsvSource } from './csv-source.js';
import { type AccountSettings, actorFor } from './identity.js';
import { DropError, type Layout, openDroppedFile } from './layout.js';
import type { FileName } from './names.js';
import { LdifSource, type RecordSource, type SourceRecord } from './source.js';

export interface RecordSettings {
  /** The longest file in bytes. Longer files are refused. */
  readonly maxBytes: number;
  /** Whether the whole file is tried before its first record is applied, and applied only if none is refused. */
  readonly validateFirst: boolean;
  readonly policy: PasswordPolicy;
  /** The identity whose access rights apply to the changes. Undefined: the administrator, as for `rowan import`. */
  readonly as: Dn | undefined;
  readonly accounts: AccountSettings;
  /** Mapping file for `.csv` files. Undefined: CSV files are refused. */
  readonly mapping?: string | undefined;
  /** Appends a record to the audit log, if there is one. */
  audit?(record: string): void | Promise<void>;
}

/** What applies the records of files: to a directory, or to a trial copy of one. */
export interface RecordContext {
  readonly partition: Partition;
  readonly actor: Actor;
  readonly passwords: ImportedPasswords;
  readonly settings: RecordSettings;
  /** Runs `work` on a trial copy of the directory, whose changes are discarded. */
  withTrial<T>(work: (trial: RecordContext) => Promise<T>): Promise<T>;
}

/** Throws `DropError` when the identity cannot be used. */
export async function recordContext(
  partition: Partition,
  settings: RecordSettings,
  log: Pick<Logger, 'error' | 'warn'>,
): Promise<RecordContext> {
  return {
    partition,
    settings,
    actor: await actorFor(partition, settings.as, settings.accounts, log),
    passwords: new ImportedPasswords(partition.schema, settings.policy, true),
    withTrial: (work) =>
      withTrialStore(partition.store, async (store) => {
        const trial = await Partition.open(store, partition.schema, { readOnly: true });
        return recordContext(trial, settings, log)
          .then(work)
          .finally(() => trial.close());
      }),
  };
}

/** Opens a file that nobody has begun. Throws `DropError` when the file or its `replyTo` is unsuitable. */
export async function openNewFile(
  layout: Layout,
  path: string,
  { replyTo }: FileName,
  { actor, settings }: RecordContext,
): Promise<FileHandle> {
  await actor.access?.renew();
  if (replyTo !== '') await layout.openReplyFolder(replyTo);
  return openDroppedFile(path, settings.maxBytes);
}

/** Throws `DropError` when the records of the file cannot be read. */
export async function openSource(
  file: FileHandle,
  { isCsv }: FileName,
  { partition, actor, settings: { mapping } }: RecordContext,
): Promise<RecordSource> {
  if (!isCsv) return new LdifSource(file);
  // The mapping is read again for each file.
  if (mapping === undefined) throw new DropError('no mapping is given for CSV files; give one with --mapping');
  return CsvSource.open(file, partition, readMapping(mapping, partition.schema), actor.access);
}

/** The most characters of a reason that are stored. */
export const MAX_REASON = 500;

/**
 * Applies the change of a record. Returns the change, if there is one, and the reason if the directory refuses it.
 * Throws failures that may be temporary. `attachedSteps`: further steps to commit with the change.
 */
export async function applyRecord(
  { partition, actor, passwords }: RecordContext,
  sourceRecord: SourceRecord,
  attachedSteps?: AttachedSteps,
): Promise<{ readonly record?: ChangeRecord | undefined; readonly reason?: string }> {
  try {
    const record = await sourceRecord.makeChange();
    if (record) await applyChange(partition, record, actor, passwords, new PasswordCounts(), attachedSteps);
    return { record };
  } catch (error) {
    if (!(error instanceof LdapError) || storeFailureOf(error) || error.result === 'busy') throw error;
    const dnText = sourceRecord.dn === undefined ? '' : `${sourceRecord.dn}: `;
    return { reason: `${dnText}${error.result}: ${error.message}`.slice(0, MAX_REASON) };
  }
}

const MAX_LISTED_ERRORS = 10;

/** Thrown to refuse a file: no more of its records will be applied. */
export class FileRefusal extends Error {
  readonly errors: readonly { readonly line: number; readonly reason: string }[];

  constructor(message: string, errors: FileRefusal['errors'] = []) {
    super(message);
    this.errors = errors;
  }
}

/** Throws `FileRefusal` if a record of the file is refused by a trial copy of the directory. */
export async function validate(
  context: RecordContext,
  file: FileHandle,
  name: FileName,
  signal: AbortSignal | undefined,
): Promise<void> {
  const errors: FileRefusal['errors'][number][] = [];
  let count = 0;
  await context.withTrial(async (trial) => {
    const source = await openSource(file, name, trial);
    for await (const sourceRecord of source.readRecords(0)) {
      signal?.throwIfAborted();
      const { reason } = await applyRecord(trial, sourceRecord);
      if (reason === undefined) continue;
      if (count++ < MAX_LISTED_ERRORS) errors.push({ line: sourceRecord.line, reason });
    }
  });
  if (count > 0) throw new FileRefusal(`records that would be refused: ${count}; nothing was applied`, errors);
}
