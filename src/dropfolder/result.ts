import { readFile, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Logger } from 'pino';
import { type DropState, endDrop, type Refusal, readRefusals } from '../partition/model/drop-rows.js';
import type { Store } from '../store/contract.js';
import type { Claims, Held } from './claims.js';
import {
  codeOf,
  DropError,
  EVERYBODY,
  hasCode,
  isPassing,
  isThere,
  type Layout,
  OWNER_ALONE,
  type Place,
  writeNew,
  writeWhole,
} from './layout.js';
import { newToken, parseFileName } from './names.js';
import type { RecordSource } from './source.js';

/** Refused records that a receipt tells of. */
const MOST_ERRORS = 10;
const ENDS = ['processed', 'error', 'expired'] as const;
export type End = (typeof ENDS)[number];

/** What became of a file: `NAME.receipt.json`. */
export interface Receipt {
  readonly id: string;
  readonly correlation: string;
  readonly name: string;
  /** Of this delivery: 32 hexadecimal digits. */
  readonly delivery: string;
  readonly result: End;
  /** ISO 8601. */
  readonly start: string;
  readonly end: string;
  readonly records: number;
  readonly applied: number;
  readonly unchanged: number;
  readonly refused: number;
  /** Why a file was refused whole, or where it was left. */
  readonly reason?: string;
  /** Why no copy of this went to `replyTo`. */
  readonly unanswered?: string;
  /** The first of them. */
  readonly errors: readonly { readonly line: number; readonly reason: string }[];
}

/** What there is to say of a file that is done. */
export interface Outcome {
  readonly result: End;
  readonly state: DropState;
  readonly reason?: string;
  readonly errors: readonly { readonly line: number; readonly reason: string }[];
}

/** Where a file's receipt is. */
interface Placed {
  readonly place: Place;
  /** The name that the file gets. */
  readonly name: string;
}

/**
 * Ends a file: rejects, receipt, the copy that `replyTo` asks for, then the rows go, then the file moves. Each step may
 * be done again by whoever takes the file over: with the receipt in place it is known that all records are done, and
 * without the file's row, too.
 */
export class Results {
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
   * Ends a file whose records were all done, or of which no more will be, for `reason`. `state` is that of its row;
   * `source` gives the refused records back, where it can be read.
   */
  async end(held: Held, source: RecordSource | undefined, state: DropState, reason?: string): Promise<End> {
    const result = state.refused > 0 || reason !== undefined ? 'error' : 'processed';
    const errors: Outcome['errors'][number][] = [];
    const refusals: Refusal[] = [];
    for await (const refusal of readRefusals(this.#store, held.claim.token)) {
      refusals.push(refusal);
      if (errors.length < MOST_ERRORS) errors.push({ line: refusal.line, reason: refusal.reason });
    }
    const rejects = refusals.length > 0 ? source?.rejects(refusals) : undefined;
    return this.#end(held, { result, state, errors, ...(reason !== undefined && { reason }) }, rejects);
  }

  /** Ends a file of which nothing was applied, or of which nobody knows what was. */
  async endWhole(held: Held, outcome: Omit<Outcome, 'state' | 'errors'> & Partial<Outcome>): Promise<End> {
    const state = { done: 0, refused: 0, unchanged: 0, start: Date.now() };
    return this.#end(held, { state, errors: [], ...outcome }, undefined);
  }

  /** The receipt of a file that was moved to `error` for its name, which is another there. */
  async refuseName(name: string, reason: string): Promise<void> {
    const claim = { token: newToken(), begun: false, claimant: '', time: 0, name };
    const held = { claim, path: '', taken: false };
    const state = { done: 0, refused: 0, unchanged: 0, start: Date.now() };
    const receipt = receiptOf(held, { result: 'error', state, reason, errors: [] });
    const path = this.#receiptPath({ place: 'error', name });
    await writeNew(path, this.#claims.part(held), textOf(receipt));
  }

  /** Goes on with a file whose receipt is in place; undefined where there is none. */
  async goOn(held: Held): Promise<End | undefined> {
    for (const place of ENDS)
      for (const name of namesFor(held)) {
        const known = await readReceipt(this.#receiptPath({ place, name }));
        if (known?.delivery === held.claim.token) return this.#leave(held, { place, name }, known);
      }
    return undefined;
  }

  async #end(held: Held, outcome: Outcome, rejects: AsyncIterable<Buffer> | undefined): Promise<End> {
    if (rejects) await writeWhole(this.#rejectsPath(held), this.#claims.part(held), rejects, OWNER_ALONE);
    await this.#layout.sync('processing');
    const unanswered = await this.#answering(held, outcome, async () => undefined);
    const receipt = { ...receiptOf(held, outcome), ...(unanswered !== undefined && { unanswered }) };
    const text = textOf(receipt);
    for (const name of namesFor(held)) {
      const placed = { place: outcome.result, name };
      const path = this.#receiptPath(placed);
      const taken = [this.#layout.path(placed.place, name), this.#rejectsOf(placed)].map(isThere);
      const isFree = !(await Promise.all(taken)).includes(true);
      if (isFree && (await writeNew(path, this.#claims.part(held), text))) return this.#leave(held, placed, receipt);
      const known = await readReceipt(path);
      if (known?.delivery === held.claim.token) return this.#leave(held, placed, known);
    }
    throw new Error(`${held.path}: there is a file of its name in ${outcome.result} already`);
  }

  /** The receipt is in place, and says what is done. */
  async #leave(held: Held, { place, name }: Placed, receipt: Receipt): Promise<End> {
    await this.#layout.sync(place);
    // Who comes second may have read the rows when they were going.
    const rejects = this.#rejectsOf({ place, name });
    if (await isThere(rejects)) await rm(this.#rejectsPath(held), { force: true });
    else await rename(this.#rejectsPath(held), rejects).catch(unlessGone);
    await this.#reply(held, { place, name }, receipt);
    await this.#layout.sync(place);
    await endDrop(this.#store, held.claim.token);
    await rename(held.path, this.#layout.path(place, name)).catch(unlessGone);
    await this.#layout.sync(place, 'processing');
    return receipt.result;
  }

  async #reply(held: Held, placed: Placed, receipt: Receipt): Promise<void> {
    if (receipt.unanswered !== undefined) return;
    const part = basename(this.#claims.part(held));
    const unanswered = await this.#answering(held, receipt, async (reply) => {
      const path = reply.path('target', `${placed.name}.receipt.json`);
      await writeWhole(path, reply.path('target', part), [Buffer.from(textOf(receipt))], EVERYBODY);
      await reply.sync('target');
    });
    if (unanswered === undefined) return;
    const text = Buffer.from(textOf({ ...receipt, unanswered }));
    await writeWhole(this.#receiptPath(placed), this.#claims.part(held), [text], EVERYBODY);
  }

  /** Does work in the folder that `replyTo` names, if any. Gives why it cannot be done, which is logged. */
  async #answering(
    { claim }: Held,
    { reason }: Pick<Receipt, 'reason'>,
    work: (reply: Layout) => Promise<void>,
  ): Promise<string | undefined> {
    const { name, replyTo } = parseFileName(claim.name);
    // Of a file that is refused for its replyTo the reason says so.
    if (replyTo === '' || reason?.startsWith('replyTo')) return undefined;
    try {
      await work(await this.#layout.reply(replyTo));
      return undefined;
    } catch (error) {
      if (isPassing(error)) throw error;
      const unanswered = error instanceof DropError ? error.message : `replyTo cannot be written to (${codeOf(error)})`;
      this.#log.warn({ name, delivery: claim.token, reason: unanswered }, 'a receipt could not be sent to replyTo');
      return unanswered;
    }
  }

  #receiptPath({ place, name }: Placed): string {
    return this.#layout.path(place, `${name}.receipt.json`);
  }

  #rejectsOf({ place, name }: Placed): string {
    return this.#layout.path(place, `${name}.rejects.ldif`);
  }

  /** Until it is known which name the file gets. */
  #rejectsPath({ claim }: Held): string {
    return this.#layout.path('processing', `.rejects-${claim.token}`);
  }
}

/** Names that the file may get where it goes: its own, or where another had that, one that nobody else has. */
function namesFor({ claim }: Held): string[] {
  const plain = parseFileName(claim.name).name.replace(/^[0-9a-f]{8}~/, '');
  return [plain, `${claim.token.slice(0, 8)}~${plain}`];
}

function receiptOf({ claim }: Held, { result, state, reason, errors }: Outcome): Receipt {
  const { id, correlation } = parseFileName(claim.name);
  const { done, refused, unchanged } = state;
  return {
    ...{ id, correlation, name: claim.name, delivery: claim.token, result },
    start: new Date(state.start).toISOString(),
    end: new Date().toISOString(),
    ...{ records: done, applied: done - refused - unchanged, unchanged, refused },
    ...(reason !== undefined && { reason }),
    errors,
  };
}

function textOf(receipt: Receipt): string {
  return `${JSON.stringify(receipt, undefined, 2)}\n`;
}

async function readReceipt(path: string): Promise<Receipt | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Receipt;
  } catch (error) {
    // Somebody else's file may have the name.
    if (error instanceof SyntaxError || hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

function unlessGone(error: unknown): void {
  if (!hasCode(error, 'ENOENT')) throw error;
}
