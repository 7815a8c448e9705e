/** A connection that claims memory and may have to wait for it. */
export interface Claimant {
  /** Whether the claimant would claim now if it were woken. A claimant that is not ready does not block others. */
  readonly isReady: boolean;
  /** Called when memory may be available: the claimant claims again. */
  wake(): void;
}

interface Claim {
  readonly identity: string;
  readonly bytes: number;
}

/** Fraction of a budget that is available to claims. The rest is left for small amounts. */
const CLAIMABLE = 3 / 4;
/** Fraction of a budget that one identity may claim. A single claim may be larger. */
const CLAIMABLE_BY_IDENTITY = 1 / 2;

/**
 * The memory that all connections of a server share for requests. Small amounts are reserved without a check. Large
 * amounts are claimed, and a claim that does not fit waits in a queue. A waiting claim keeps its place, but does not
 * block the queue while its identity is over its fraction or its claimant is not ready.
 */
export class Budget {
  readonly #limit: number;
  #used = 0;
  #allClaimed = 0;
  readonly #claimed = new Map<string, number>();
  /** Waiting claims, oldest first. */
  readonly #queue = new Map<Claimant, Claim>();
  #wakeScheduled = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  get free(): number {
    return this.#limit - this.#used;
  }

  reserve(bytes: number): void {
    this.#used += bytes;
  }

  release(bytes: number): void {
    this.#used -= bytes;
  }

  /** Returns true when the bytes were claimed. Otherwise the claim waits, and the claimant is woken to claim again. */
  claim(claimant: Claimant, identity: string, bytes: number): boolean {
    const claim = { identity, bytes };
    const next = this.#nextClaimant();
    if ((next && next !== claimant) || this.#exceedsIdentityLimit(claim) || !this.#fits(claim)) {
      this.#queue.set(claimant, claim);
      return false;
    }
    this.#queue.delete(claimant);
    this.#used += bytes;
    this.#allClaimed += bytes;
    this.#claimed.set(identity, (this.#claimed.get(identity) ?? 0) + bytes);
    this.#wakeNext();
    return true;
  }

  releaseClaim(identity: string, bytes: number): void {
    const left = (this.#claimed.get(identity) ?? 0) - bytes;
    if (left > 0) this.#claimed.set(identity, left);
    else this.#claimed.delete(identity);
    this.#allClaimed -= bytes;
    this.#used -= bytes;
    this.#wakeNext();
  }

  cancelClaim(claimant: Claimant): void {
    if (this.#queue.delete(claimant)) this.#wakeNext();
  }

  /** Wakes the next claimant, because `claimant` may have been woken while it was not ready. */
  passOn(claimant: Claimant): void {
    if (this.#queue.has(claimant)) this.#wakeNext();
  }

  #exceedsIdentityLimit({ identity, bytes }: Claim): boolean {
    const claimed = this.#claimed.get(identity) ?? 0;
    return claimed > 0 && claimed + bytes > this.#limit * CLAIMABLE_BY_IDENTITY;
  }

  #fits({ bytes }: Claim): boolean {
    return this.#allClaimed === 0 || this.#allClaimed + bytes <= this.#limit * CLAIMABLE;
  }

  #nextClaimant(): Claimant | undefined {
    for (const [claimant, claim] of this.#queue)
      if (!this.#exceedsIdentityLimit(claim) && claimant.isReady) return claimant;
    return undefined;
  }

  #wakeNext(): void {
    if (this.#queue.size === 0 || this.#wakeScheduled) return;
    this.#wakeScheduled = true;
    setImmediate(() => {
      this.#wakeScheduled = false;
      const next = this.#nextClaimant();
      if (next && this.#fits(this.#queue.get(next)!)) next.wake();
    });
  }
}
