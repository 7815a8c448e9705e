import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ResultCode } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../partition/index.js';
import type { Request } from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import type { FollowerStatus, Primary } from '../../replica/primary.js';
import type { Siblings } from '../processes/siblings.js';
import type { Config } from '../settings/index.js';
import { type Outcome, outcome } from '../words/outcome.js';

/** Time between two looks at what replicas have acknowledged, in ms. All changes that wait share the looks. */
const LOOK_MS = 2;
/** What other processes have answered counts for this time, in ms. */
const FRESH_MS = 1000;

const WRITING_OPS: ReadonlySet<Request['op']> = new Set(['add', 'modify', 'modifyDN', 'delete']);
/** Extended operations that change the directory. */
const { passwordModify, applicationPasswords, endTransaction } = ExtendedOid;
const WRITING_OIDS: ReadonlySet<string> = new Set([passwordModify, applicationPasswords, endTransaction]);

type RequestKind = Pick<Request, 'op'> & { readonly oid?: string };

/** Whether the request is to change entries. */
export function isWrite({ op, oid }: RequestKind): boolean {
  return WRITING_OPS.has(op) || (oid !== undefined && WRITING_OIDS.has(oid));
}

export interface AcknowledgementParts {
  readonly primary: Primary;
  readonly config: Config;
  readonly siblings: Siblings | undefined;
  readonly log: Logger;
}

/**
 * Holds the answers of changes until `replica.acknowledge` replicas have the changes on disk. All changes wait at the
 * same time. A replica that was too slow for a change counts again when it has that change.
 */
export class Acknowledgements {
  readonly #parts: AcknowledgementParts;
  /** Followers of the other processes, and `performance.now()` of that answer. */
  #elsewhere: readonly FollowerStatus[] = [];
  #answeredAt = Number.NEGATIVE_INFINITY;
  #look: Promise<void> | undefined;
  /** The highest position that was not acknowledged in time. */
  #missed = 0n;
  #isShort = false;
  /** Changes that run or wait. */
  #changeCount = 0;
  #isClosing = false;

  constructor(parts: AcknowledgementParts) {
    this.#parts = parts;
  }

  /**
   * Runs `perform`, and returns its outcome when enough replicas have the change. With too few of them the outcome is
   * `unavailable`, with `replica.acknowledgeMissing: continue` that of `perform`.
   */
  run(request: RequestKind, perform: () => Maybe<Outcome>): Maybe<Outcome> {
    if (this.#parts.config.replica.acknowledge === 0 || !isWrite(request)) return perform();
    if (this.#isClosing) return outcome('unavailable', 'the server is shutting down');
    this.#changeCount++;
    return this.#run(perform).finally(() => this.#changeCount--);
  }

  /** Refuses further changes, and resolves when the present ones are acknowledged, or have waited long enough. */
  async close(): Promise<void> {
    this.#isClosing = true;
    while (this.#changeCount > 0) await delay(LOOK_MS);
  }

  async #run(perform: () => Maybe<Outcome>): Promise<Outcome> {
    const { acknowledge, acknowledgeMissing, acknowledgeSeconds } = this.#parts.config.replica;
    const isRefusing = acknowledgeMissing === 'refuse';
    const isEnough = this.#isAcknowledged(this.#missed) || (await this.#isEnoughNow());
    if (!isEnough && !this.#isShort)
      this.#parts.log.warn(
        { acknowledge },
        `too few replicas follow: changes are ${isRefusing ? 'refused' : 'not acknowledged'}`,
      );
    this.#isShort = !isEnough;
    if (!isEnough && isRefusing)
      return outcome(
        'unavailable',
        `nothing is changed: fewer replicas follow than replica.acknowledge: ${acknowledge}`,
      );
    const result = await perform();
    if (!isEnough || result.code !== ResultCode.success) return result;
    const position = await this.#parts.primary.position();
    if ((await this.#waitFor(position, acknowledgeSeconds * 1000)) || !isRefusing) return result;
    const text = `it is changed here, but fewer replicas than ${acknowledge} have it after ${acknowledgeSeconds} s`;
    return { ...outcome('unavailable', text), isChanged: true };
  }

  async #isEnoughNow(): Promise<boolean> {
    // The log begins anew when the last replica was revoked.
    if ((await this.#parts.primary.position()) < this.#missed) this.#missed = 0n;
    await this.#ask();
    return this.#isAcknowledged(this.#missed);
  }

  /** Returns whether the position is acknowledged in time. */
  async #waitFor(position: bigint, ms: number): Promise<boolean> {
    const until = performance.now() + ms;
    while (!this.#isAcknowledged(position)) {
      if (performance.now() >= until) {
        if (position > this.#missed) this.#missed = position;
        return false;
      }
      this.#look ??= delay(LOOK_MS).then(() => this.#ask());
      await this.#look;
    }
    return true;
  }

  async #ask(): Promise<void> {
    const answers =
      this.#parts.siblings?.isAlone === false ? await this.#parts.siblings.ask({ about: 'replicas' }) : [];
    this.#elsewhere = answers.flatMap(({ replicas = [] }) => replicas);
    this.#answeredAt = performance.now();
    this.#look = undefined;
  }

  #isAcknowledged(position: bigint): boolean {
    const elsewhere = performance.now() - this.#answeredAt < FRESH_MS ? this.#elsewhere : [];
    const names = new Set<string>();
    for (const follower of [...this.#parts.primary.followers(), ...elsewhere])
      if (follower.isConnected && BigInt(follower.position) >= position) names.add(follower.name);
    return names.size >= this.#parts.config.replica.acknowledge;
  }
}
