import type { FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import { LdapError } from '../ldap/ldap-error.js';
import { storeFailureOf } from '../partition/index.js';
import {
  attachedRecord,
  beginDrop,
  type DropState,
  endDrop,
  markUnchanged,
  RecordDone,
  readDrop,
  readRefusals,
  recordRefusal,
} from '../partition/model/drop-rows.js';
import { formatAuditComments } from '../server/logs/audit-comments.js';
import { formatRecordChange } from '../server/observation/change-text.js';
import {
  applyRecord,
  FileRefusal,
  MAX_REASON,
  openNewFile,
  openSource,
  type RecordContext,
  validate,
} from './apply-record.js';
import type { ClaimedFile, Claims } from './claims.js';
import { DropError, errorCodeOf, isTransient, type Layout, openDroppedFile } from './layout.js';
import { type FileName, isExpired, parseFileName } from './names.js';
import type { FileFinisher, FileResult } from './result.js';
import type { RecordSource, SourceRecord } from './source.js';

/**
 * The most attempts at one record. An attempt fails when a guard shows that another process has applied the record,
 * although the stored count of records has not moved.
 */
const MAX_STALLED_ATTEMPTS = 10;
const PROGRESS_UNKNOWN =
  'its progress is not known in this directory: records of it may have been applied, and none was now; see which were, and drop the others';

export interface FileContext extends RecordContext {
  readonly layout: Layout;
  readonly claims: Claims;
  readonly finisher: FileFinisher;
  readonly log: Pick<Logger, 'error' | 'warn'>;
}

export class FileRun {
  readonly #context: FileContext;
  readonly #fileName: FileName;
  #claimedFile: ClaimedFile;

  constructor(context: FileContext, claimed: ClaimedFile) {
    this.#context = context;
    this.#claimedFile = claimed;
    this.#fileName = parseFileName(claimed.claim.name);
  }

  get claimedFile(): ClaimedFile {
    return this.#claimedFile;
  }

  /**
   * Processes the file and returns the result; undefined when another process has the claim or has finished the file.
   * Throws the reason of the signal between two records, and failures that may be temporary, such as store failures.
   * The file then stays in `processing`, and the next claimant resumes it.
   */
  async run(signal: AbortSignal | undefined): Promise<FileResult | undefined> {
    const { finisher, claims } = this.#context;
    if (this.#claimedFile.wasTakenOver) {
      const result = await finisher.resume(this.#claimedFile);
      if (result) return result;
    }
    if (!this.#claimedFile.claim.isBegun && isExpired(this.#fileName))
      return finisher.finishUnapplied(this.#claimedFile, { result: 'expired' });
    let file: FileHandle | undefined;
    let source: RecordSource | undefined;
    try {
      file = await this.#openFile();
      source = await openSource(file, this.#fileName, this.#context);
      const { name, token: delivery } = this.#claimedFile.claim;
      for (const warning of source.warnings ?? []) this.#context.log.warn({ name, delivery }, warning);
      if (this.#context.settings.validateFirst && !this.#claimedFile.claim.isBegun)
        await validate(this.#context, file, this.#fileName, signal);
      return await this.#applyRecords(source, signal);
    } catch (error) {
      if (signal?.aborted || isRetryable(error)) throw error;
      if (!(await claims.isHeld(this.#claimedFile))) return undefined;
      return await this.#refuseFile(this.#toRefusal(error), source);
    } finally {
      await file?.close();
    }
  }

  #toRefusal(error: unknown): FileRefusal {
    if (error instanceof FileRefusal) return error;
    if (error instanceof DropError) return new FileRefusal(error.message);
    if (error instanceof LdapError) return new FileRefusal(`${error.result}: ${error.message}`.slice(0, MAX_REASON));
    const { name, token } = this.#claimedFile.claim;
    const code = errorCodeOf(error);
    this.#context.log.error({ name, delivery: token, code }, 'a dropped file cannot be worked on');
    return new FileRefusal(`it cannot be read or worked on (${code}); see to that, and drop it again`);
  }

  async #refuseFile(
    { message: reason, errors }: FileRefusal,
    source: RecordSource | undefined,
  ): Promise<FileResult | undefined> {
    const { finisher, partition } = this.#context;
    const { claim } = this.#claimedFile;
    if (!claim.isBegun) return finisher.finishUnapplied(this.#claimedFile, { result: 'error', reason, errors });
    const dropState = await readDrop(partition.store, claim.token);
    if (!dropState) return this.#resumeWithoutRow();
    const reasonAndProgress = `${reason}; what comes after its record ${dropState.doneCount} was not applied`;
    try {
      return await finisher.finish(this.#claimedFile, source, dropState, reasonAndProgress);
    } catch (error) {
      if (isRetryable(error)) throw error;
      // Finish without a rejects file. The problem with the records may also prevent reading the refused ones again.
      return finisher.finish(this.#claimedFile, undefined, dropState, reasonAndProgress);
    }
  }

  /** Resumes a begun file whose row is missing. Either the file is finished, or the row is in another directory. */
  async #resumeWithoutRow(): Promise<FileResult | undefined> {
    const { finisher, claims } = this.#context;
    const result = await finisher.resume(this.#claimedFile);
    if (result || !(await claims.isHeld(this.#claimedFile))) return result;
    return finisher.finishUnapplied(this.#claimedFile, { result: 'error', reason: PROGRESS_UNKNOWN });
  }

  async #openFile(): Promise<FileHandle> {
    const { path, claim } = this.#claimedFile;
    if (!claim.isBegun) return openNewFile(this.#context.layout, path, this.#fileName, this.#context);
    await this.#context.actor.access?.renew();
    return openDroppedFile(path, Infinity);
  }

  async #applyRecords(source: RecordSource, signal: AbortSignal | undefined): Promise<FileResult | undefined> {
    const { partition, finisher } = this.#context;
    if (!this.#claimedFile.claim.isBegun && !(await this.#beginFile())) return undefined;
    const { token } = this.#claimedFile.claim;
    for (let lastDoneCount = -1, stalledAttempts = 0; ; ) {
      const dropState = await readDrop(partition.store, token);
      // A missing row of a begun file means that the receipt was written: the row is deleted only after that.
      if (!dropState) return this.#resumeWithoutRow();
      if (await this.#applyRemaining(dropState, source, signal)) break;
      if (!(await this.#context.claims.isHeld(this.#claimedFile))) return undefined;
      stalledAttempts = dropState.doneCount === lastDoneCount ? stalledAttempts + 1 : 0;
      lastDoneCount = dropState.doneCount;
      if (stalledAttempts === MAX_STALLED_ATTEMPTS)
        throw new ClaimRenamedError(
          `record ${lastDoneCount + 1} cannot be done; was ${this.#claimedFile.path} given another name? Give it back its own`,
        );
    }
    const dropState = await readDrop(partition.store, token);
    return dropState ? finisher.finish(this.#claimedFile, source, dropState) : this.#resumeWithoutRow();
  }

  /**
   * Creates the row of the file, then marks the claim as begun. Both have to be durable before records are applied.
   * Returns false when another process has taken the claim.
   */
  async #beginFile(): Promise<boolean> {
    const { claims, layout, partition } = this.#context;
    const { token, name } = this.#claimedFile.claim;
    await beginDrop(partition.store, token, name, Date.now());
    const begunFile = await claims.markBegun(this.#claimedFile);
    if (!begunFile) {
      // The new claimant may have finished the file before the row was created. Delete the row then, since it belongs
      // to no file.
      if (!(await claims.isClaimed(token))) await endDrop(partition.store, token);
      return false;
    }
    this.#claimedFile = begunFile;
    await layout.sync('processing', 'target');
    return true;
  }

  /** Applies the remaining records. Returns false when another process has applied the next record meanwhile. */
  async #applyRemaining(
    { doneCount, refusedCount }: DropState,
    source: RecordSource,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    let recordNumber = doneCount;
    try {
      const refusedDns = refusedCount > 0 ? await this.#readRefusedDns() : undefined;
      for await (const record of source.readRecords(doneCount, refusedDns)) {
        signal?.throwIfAborted();
        await this.#applyRecord(record, recordNumber++);
      }
      return true;
    } catch (error) {
      if (error instanceof RecordDone) return false;
      throw error;
    }
  }

  async #readRefusedDns(): Promise<Set<string>> {
    const dns = new Set<string>();
    if (!this.#fileName.isCsv) return dns;
    for await (const { dn } of readRefusals(this.#context.partition.store, this.#claimedFile.claim.token))
      if (dn !== undefined) dns.add(dn);
    return dns;
  }

  async #applyRecord(sourceRecord: SourceRecord, number: number): Promise<void> {
    const { partition, settings } = this.#context;
    const { store, schema } = partition;
    const { token, name } = this.#claimedFile.claim;
    const { line, dn } = sourceRecord;
    const attachedSteps = attachedRecord(store, token, name, number);
    const actor = { ...this.#context.actor, givenNumbers: new Map() };
    const { record, reason } = await applyRecord({ ...this.#context, actor }, sourceRecord, attachedSteps);
    if (reason !== undefined) await recordRefusal(store, token, name, { number, line, reason, dn });
    else if (!record) await markUnchanged(store, token, name, number);
    else if (settings.audit) {
      const place = `${number + 1}${line > 0 ? `, line ${line}` : ''}`;
      const comments = formatAuditComments({ who: actor.dn, file: name, delivery: token, record: place });
      await settings.audit(comments + formatRecordChange(record, schema, actor.givenNumbers));
    }
  }
}

/** Thrown when the file was renamed in `processing` by hand. If the name is restored, the next attempt succeeds. */
class ClaimRenamedError extends Error {}

/** Whether the failure may be temporary, so that the file stays in `processing` to be tried again. */
function isRetryable(error: unknown): boolean {
  const isBusy = error instanceof LdapError && error.result === 'busy';
  return storeFailureOf(error) !== undefined || isBusy || isTransient(error) || error instanceof ClaimRenamedError;
}
