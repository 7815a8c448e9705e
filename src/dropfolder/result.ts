import { readFile, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Logger } from 'pino';
import { type DropState, endDrop, type Refusal, readRefusals } from '../partition/model/drop-rows.js';
import type { Store } from '../store/contract.js';
import type { ClaimedFile, Claims } from './claims.js';
import {
  createFile,
  DropError,
  errorCodeOf,
  exists,
  type FolderName,
  hasCode,
  isTransient,
  type Layout,
  OWNER_ONLY_MODE,
  renameIfPresent,
  replaceFile,
  WORLD_READABLE_MODE,
} from './layout.js';
import { newToken, parseFileName } from './names.js';
import type { RecordSource } from './source.js';

/** The most refused records that a receipt lists. */
const MAX_LISTED_ERRORS = 10;
const FILE_RESULTS = ['processed', 'error', 'expired'] as const;
export type FileResult = (typeof FILE_RESULTS)[number];

export interface Receipt {
  readonly id: string;
  readonly correlation: string;
  readonly name: string;
  /** Identifies the delivery: the `token` of the claim. */
  readonly delivery: string;
  readonly result: FileResult;
  /** Time in ISO 8601. */
  readonly start: string;
  readonly end: string;
  readonly records: number;
  readonly applied: number;
  readonly unchanged: number;
  readonly refused: number;
  /** Comments `# left out: …` of an audit log, which tell what its records lack; absent: there are none. */
  readonly leftOut?: number;
  /** The reason why the whole file was refused, or why processing stopped before its last record. */
  readonly reason?: string;
  /** The reason why no copy of the receipt was sent to `replyTo`. */
  readonly unanswered?: string;
  /** The first `MAX_LISTED_ERRORS` refused records. */
  readonly errors: readonly { readonly line: number; readonly reason: string }[];
}

export interface Outcome {
  readonly result: FileResult;
  readonly state: DropState;
  readonly leftOut?: number | undefined;
  readonly reason?: string;
  readonly errors: readonly { readonly line: number; readonly reason: string }[];
}

/** The final path of a file and of its receipt. */
interface FinalLocation {
  readonly place: FolderName;
  readonly name: string;
}

/**
 * Finishes files in this order: rejects file, receipt, copy for `replyTo`, rows deleted, file moved. Every step may be
 * repeated by the next claimant. A receipt, or a missing row, means that all records are done.
 */
export class FileFinisher {
  readonly #layout: Layout;
  readonly #claims: Claims;
  readonly #store: Store;
  readonly #log: Pick<Logger, 'warn'>;

  constructor(layout: Layout, claims: Claims, store: Store, log: Pick<Logger, 'warn'>) {
    this.#layout = layout;
    this.#claims = claims;
    this.#store = store;
    this.#log = log;
  }

  /**
   * Finishes a file whose records are done, or that stops early for `reason`. `state`: the row of the file. `source`:
   * yields the refused records; undefined if they cannot be read.
   */
  async finish(
    file: ClaimedFile,
    source: RecordSource | undefined,
    state: DropState,
    reason?: string,
  ): Promise<FileResult> {
    const result = state.refusedCount > 0 || reason !== undefined ? 'error' : 'processed';
    const errors: Outcome['errors'][number][] = [];
    const refusals: Refusal[] = [];
    for await (const refusal of readRefusals(this.#store, file.claim.token)) {
      refusals.push(refusal);
      if (errors.length < MAX_LISTED_ERRORS) errors.push({ line: refusal.line, reason: refusal.reason });
    }
    const rejects = refusals.length > 0 ? source?.formatRejects(refusals) : undefined;
    const outcome = { result, state, leftOut: source?.leftOutCount, errors } as const;
    return this.#finishAs(file, { ...outcome, ...(reason !== undefined && { reason }) }, rejects);
  }

  /** Finishes a file of which no record was applied, or whose progress is unknown. */
  async finishUnapplied(
    file: ClaimedFile,
    outcome: Omit<Outcome, 'state' | 'errors'> & Partial<Outcome>,
  ): Promise<FileResult> {
    const state = { doneCount: 0, refusedCount: 0, unchangedCount: 0, startMs: Date.now() };
    return this.#finishAs(file, { state, errors: [], ...outcome }, undefined);
  }

  /** Writes the receipt of a file that was moved to `error` because of its unacceptable name. `name`: the new name. */
  async writeNameReceipt(name: string, reason: string): Promise<void> {
    const claim = { token: newToken(), isBegun: false, claimant: '', timeMs: 0, name };
    const file = { claim, path: '', wasTakenOver: false };
    const state = { doneCount: 0, refusedCount: 0, unchangedCount: 0, startMs: Date.now() };
    const receipt = makeReceipt(file, { result: 'error', state, reason, errors: [] });
    const path = this.#receiptPath({ place: 'error', name });
    await createFile(path, this.#claims.temporaryPath(file), formatReceipt(receipt));
  }

  /** Finishes a file that already has a receipt. Returns undefined when there is none. */
  async resume(file: ClaimedFile): Promise<FileResult | undefined> {
    for (const place of FILE_RESULTS)
      for (const name of candidateNames(file)) {
        const receipt = await readReceipt(this.#receiptPath({ place, name }));
        if (receipt?.delivery === file.claim.token) return this.#finishAfterReceipt(file, { place, name }, receipt);
      }
    return undefined;
  }

  async #finishAs(
    file: ClaimedFile,
    outcome: Outcome,
    rejects: AsyncIterable<Buffer> | undefined,
  ): Promise<FileResult> {
    if (rejects)
      await replaceFile(this.#pendingRejectsPath(file), this.#claims.temporaryPath(file), rejects, OWNER_ONLY_MODE);
    await this.#layout.sync('processing');
    const replyFailure = await this.#workInReplyFolder(file, outcome, async () => undefined);
    const receipt = { ...makeReceipt(file, outcome), ...(replyFailure !== undefined && { unanswered: replyFailure }) };
    const text = formatReceipt(receipt);
    for (const name of candidateNames(file)) {
      const location = { place: outcome.result, name };
      const path = this.#receiptPath(location);
      const areTaken = [this.#layout.path(location.place, name), this.#rejectsPath(location)].map(exists);
      const isFree = !(await Promise.all(areTaken)).includes(true);
      if (isFree && (await createFile(path, this.#claims.temporaryPath(file), text)))
        return this.#finishAfterReceipt(file, location, receipt);
      const otherReceipt = await readReceipt(path);
      if (otherReceipt?.delivery === file.claim.token) return this.#finishAfterReceipt(file, location, otherReceipt);
    }
    throw new Error(`${file.path}: a file of this name is in ${outcome.result} already`);
  }

  async #finishAfterReceipt(file: ClaimedFile, { place, name }: FinalLocation, receipt: Receipt): Promise<FileResult> {
    await this.#layout.sync(place);
    // Write the rejects file again: two processes may finish the same file, and the other one may have read only some
    // of the refusals.
    const rejects = this.#rejectsPath({ place, name });
    if (await exists(rejects)) await rm(this.#pendingRejectsPath(file), { force: true });
    else await renameIfPresent(this.#pendingRejectsPath(file), rejects);
    await this.#sendReply(file, { place, name }, receipt);
    await this.#layout.sync(place);
    await endDrop(this.#store, file.claim.token);
    await renameIfPresent(file.path, this.#layout.path(place, name));
    await this.#layout.sync(place, 'processing');
    return receipt.result;
  }

  async #sendReply(file: ClaimedFile, location: FinalLocation, receipt: Receipt): Promise<void> {
    if (receipt.unanswered !== undefined) return;
    const partName = basename(this.#claims.temporaryPath(file));
    const replyFailure = await this.#workInReplyFolder(file, receipt, async (replyLayout) => {
      const path = replyLayout.path('target', `${location.name}.receipt.json`);
      const content = [Buffer.from(formatReceipt(receipt))];
      await replaceFile(path, replyLayout.path('target', partName), content, WORLD_READABLE_MODE);
      await replyLayout.sync('target');
    });
    if (replyFailure === undefined) return;
    const text = Buffer.from(formatReceipt({ ...receipt, unanswered: replyFailure }));
    await replaceFile(this.#receiptPath(location), this.#claims.temporaryPath(file), [text], WORLD_READABLE_MODE);
  }

  /** Runs `work` on the drop folder that `replyTo` names, if any. Logs failures and returns the reason. */
  async #workInReplyFolder(
    { claim }: ClaimedFile,
    { reason }: Pick<Receipt, 'reason'>,
    work: (reply: Layout) => Promise<void>,
  ): Promise<string | undefined> {
    const { name, replyTo } = parseFileName(claim.name);
    // If the file was refused for its `replyTo`, the receipt has the reason already.
    if (replyTo === '' || reason?.startsWith('replyTo')) return undefined;
    try {
      await work(await this.#layout.openReplyFolder(replyTo));
      return undefined;
    } catch (error) {
      if (isTransient(error)) throw error;
      const failure =
        error instanceof DropError ? error.message : `replyTo cannot be written to (${errorCodeOf(error)})`;
      this.#log.warn({ name, delivery: claim.token, reason: failure }, 'a receipt could not be sent to replyTo');
      return failure;
    }
  }

  #receiptPath({ place, name }: FinalLocation): string {
    return this.#layout.path(place, `${name}.receipt.json`);
  }

  #rejectsPath({ place, name }: FinalLocation): string {
    return this.#layout.path(place, `${name}.rejects.ldif`);
  }

  /** Returns the path of the rejects file until the final name of the file is known. */
  #pendingRejectsPath({ claim }: ClaimedFile): string {
    return this.#layout.path('processing', `.rejects-${claim.token}`);
  }
}

/** Returns the candidates for the final name: the dropped name, then a unique name in case of a collision. */
function candidateNames({ claim }: ClaimedFile): string[] {
  const droppedName = parseFileName(claim.name).name.replace(/^[0-9a-f]{8}~/, '');
  return [droppedName, `${claim.token.slice(0, 8)}~${droppedName}`];
}

function makeReceipt({ claim }: ClaimedFile, { result, state, leftOut = 0, reason, errors }: Outcome): Receipt {
  const { id, correlation } = parseFileName(claim.name);
  const { doneCount, refusedCount, unchangedCount } = state;
  return {
    ...{ id, correlation, name: claim.name, delivery: claim.token, result },
    start: new Date(state.startMs).toISOString(),
    end: new Date().toISOString(),
    records: doneCount,
    applied: doneCount - refusedCount - unchangedCount,
    unchanged: unchangedCount,
    refused: refusedCount,
    ...(leftOut > 0 && { leftOut }),
    ...(reason !== undefined && { reason }),
    errors,
  };
}

function formatReceipt(receipt: Receipt): string {
  return `${JSON.stringify(receipt, undefined, 2)}\n`;
}

async function readReceipt(path: string): Promise<Receipt | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Receipt;
  } catch (error) {
    // Another file may have the name.
    if (error instanceof SyntaxError || hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
