import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ResultCode } from '../../ldap/ldap-error.js';
import type { Request } from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import type { FollowerStatus, Primary } from '../../replica/primary.js';
import type { Siblings } from '../processes/siblings.js';
import type { Config } from '../settings/index.js';
import type { Maybe } from '../words/maybe.js';
import { type Outcome, outcome } from '../words/outcome.js';

/** Time between two questions to the other processes while a change waits, in ms. */
const ASK_MS = 2;
/** Longest time between two looks at the deadline of a change, in ms. */
const LOOK_MS = 100;
/** What other processes have answered counts for this time, in ms. */
const FRESH_MS = 1000;

const WRITING_OPS: ReadonlySet<Request['op']> = new Set(['add', 'modify', 'modifyDN', 'delete']);
/** Extended operations that change the directory. */
const WRITING_OIDS: ReadonlySet<string> = new Set([ExtendedOid.passwordModify, ExtendedOid.applicationPasswords]);

type RequestKind = Pick<Request, 'op'> & { readonly oid?: string };

/** Whether the request is to change entries. */
export function isWrite({ op, oid }: RequestKind): boolean {
  return WRITING_OPS.has(op) || (oid !== undefined && WRITING_OIDS.has(oid));
}

/**
 * Holds the answers of changes until `replica.acknowledge` replicas have the changes on disk. All changes wait at the
 * same time. A replica that was too slow for a change counts again when it has that change.
 */
export class Acknowledgements {
  readonly #primary: Primary;
  readonly #config: Config;
  readonly #siblings: Siblings | undefined;
  readonly #log: Logger;
  /** Followers of the other processes, and `performance.now()` of that answer. */
  #elsewhere: readonly FollowerStatus[] = [];
  #answeredAt = Number.NEGATIVE_INFINITY;
  /** Resolves when more replicas may have acknowledged. All changes that wait share it. */
  #news: Promise<unknown> | undefined;
  /** The highest position that was not acknowledged in time. */
  #missed = 0n;
  #isShort = false;
  /** Changes that run or wait. */
  #changeCount = 0;
  #isClosing = false;

  constructor(primary: Primary, config: Config, siblings: Siblings | undefined, log: Logger) {
    this.#primary = primary;
    this.#config = config;
    this.#siblings = siblings;
    this.#log = log;
  }

  /**
   * Runs `perform`, and returns its outcome when enough replicas have the change. With too few of them the outcome is
   * `unavailable`, with `replica.acknowledgeMissing: continue` that of `perform`.
   */
  run(request: RequestKind, perform: () => Maybe<Outcome>): Maybe<Outcome> {
    if (this.#config.replica.acknowledge === 0 || !isWrite(request)) return perform();
    if (this.#isClosing) return outcome('unavailable', 'the server is shutting down');
    this.#changeCount++;
    return this.#run(perform).finally(() => this.#changeCount--);
  }

  /** Refuses further changes, and resolves when the present ones are acknowledged, or have waited long enough. */
  async close(): Promise<void> {
    this.#isClosing = true;
    while (this.#changeCount > 0) await delay(ASK_MS);
  }

  async #run(perform: () => Maybe<Outcome>): Promise<Outcome> {
    const { acknowledge, acknowledgeMissing, acknowledgeSeconds } = this.#config.replica;
    const isRefusing = acknowledgeMissing === 'refuse';
    const isEnough = await this.#findEnough();
    if (!isEnough && isRefusing)
      return outcome(
        'unavailable',
        `nothing is changed: fewer replicas follow than replica.acknowledge: ${acknowledge}`,
      );
    const result = await perform();
    if (!isEnough || result.code !== ResultCode.success) return result;
    const position = await this.#primary.position();
    if ((await this.#waitFor(position, acknowledgeSeconds * 1000)) || !isRefusing) return result;
    const text = `it is changed here, but fewer replicas than ${acknowledge} have it after ${acknowledgeSeconds} s`;
    return { ...outcome('unavailable', text), isChanged: true };
  }

  async #findEnough(): Promise<boolean> {
    let isEnough = this.#isAcknowledged(this.#missed);
    if (!isEnough) {
      // The log begins anew when the last replica was revoked.
      if ((await this.#primary.position()) < this.#missed) this.#missed = 0n;
      if (this.#hasSiblings) await this.#ask();
      isEnough = this.#isAcknowledged(this.#missed);
    }
    this.#setShort(!isEnough);
    return isEnough;
  }

  /** Returns whether the position is acknowledged in time. */
  async #waitFor(position: bigint, ms: number): Promise<boolean> {
    const until = performance.now() + ms;
    while (!this.#isAcknowledged(position)) {
      if (performance.now() >= until) {
        if (position > this.#missed) this.#missed = position;
        this.#setShort(true);
        return false;
      }
      this.#news ??= Promise.race(this.#sources()).finally(() => {
        this.#news = undefined;
      });
      await this.#news;
    }
    return true;
  }

  #sources(): Promise<unknown>[] {
    const sources: Promise<unknown>[] = [this.#primary.news(), delay(LOOK_MS)];
    const followersHere = this.#primary.followers().filter(({ isConnected }) => isConnected);
    if (this.#hasSiblings && followersHere.length < this.#config.replica.acknowledge)
      sources.push(delay(ASK_MS).then(() => this.#ask()));
    return sources;
  }

  get #hasSiblings(): boolean {
    return this.#siblings !== undefined && !this.#siblings.isAlone;
  }

  async #ask(): Promise<void> {
    const answers = await this.#siblings!.ask({ about: 'replicas' });
    this.#elsewhere = answers.flatMap(({ replicas = [] }) => replicas);
    this.#answeredAt = performance.now();
  }

  #isAcknowledged(position: bigint): boolean {
    const elsewhere = performance.now() - this.#answeredAt < FRESH_MS ? this.#elsewhere : [];
    const names = new Set<string>();
    for (const follower of [...this.#primary.followers(), ...elsewhere])
      if (follower.isConnected && BigInt(follower.position) >= position) names.add(follower.name);
    return names.size >= this.#config.replica.acknowledge;
  }

  #setShort(isShort: boolean): void {
    if (isShort === this.#isShort) return;
    this.#isShort = isShort;
    const { acknowledge, acknowledgeMissing } = this.#config.replica;
    const effect = acknowledgeMissing === 'refuse' ? 'changes are refused' : 'changes are not acknowledged';
    if (isShort) this.#log.warn({ acknowledge }, `too few replicas follow: ${effect}`);
    else this.#log.info({ acknowledge }, 'enough replicas follow again');
  }
}
