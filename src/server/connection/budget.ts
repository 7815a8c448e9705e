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
const CLAIMABLE_FRACTION = 3 / 4;
/** Fraction of a budget that one identity may claim, if not told otherwise. A single claim may be larger. */
const IDENTITY_FRACTION = 1 / 2;

/**
 * The memory that all connections of a server share for requests. Small amounts are reserved without a check. Large
 * amounts are claimed, and a claim that does not fit waits in a queue. Identities that have claimed less go first. A
 * waiting claim keeps its place, but does not block the queue while its identity is over its fraction or its claimant
 * is not ready.
 */
export class Budget {
  limitBytes: number;
  readonly #identityFraction: number;
  #usedBytes = 0;
  #claimedBytes = 0;
  readonly #claimedByIdentity = new Map<string, number>();
  /** Waiting claims, oldest first. */
  readonly #waitingClaims = new Map<Claimant, Claim>();
  #isWakeScheduled = false;

  constructor(limit: number, identityFraction = IDENTITY_FRACTION) {
    this.limitBytes = limit;
    this.#identityFraction = identityFraction;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get waitingCount(): number {
    return this.#waitingClaims.size;
  }

  get freeBytes(): number {
    return this.limitBytes - this.#usedBytes;
  }

  reserve(bytes: number): void {
    this.#usedBytes += bytes;
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes;
  }

  /** Returns true when the bytes were claimed. Otherwise the claim waits, and the claimant is woken to claim again. */
  claim(claimant: Claimant, identity: string, bytes: number): boolean {
    const claim = { identity, bytes };
    this.#waitingClaims.set(claimant, claim);
    const nextClaimant = this.#nextClaimant();
    if ((nextClaimant && nextClaimant !== claimant) || this.#exceedsIdentityLimit(claim) || !this.#fitsLimit(claim))
      return false;
    this.#waitingClaims.delete(claimant);
    this.#usedBytes += bytes;
    this.#claimedBytes += bytes;
    this.#claimedByIdentity.set(identity, (this.#claimedByIdentity.get(identity) ?? 0) + bytes);
    this.#wakeNextClaimant();
    return true;
  }

  releaseClaim(identity: string, bytes: number): void {
    const remainingBytes = (this.#claimedByIdentity.get(identity) ?? 0) - bytes;
    if (remainingBytes > 0) this.#claimedByIdentity.set(identity, remainingBytes);
    else this.#claimedByIdentity.delete(identity);
    this.#claimedBytes -= bytes;
    this.#usedBytes -= bytes;
    this.#wakeNextClaimant();
  }

  cancelClaim(claimant: Claimant): void {
    if (this.#waitingClaims.delete(claimant)) this.#wakeNextClaimant();
  }

  /** Wakes the next claimant, because `claimant` may have been woken while it was not ready. */
  yieldClaim(claimant: Claimant): void {
    if (this.#waitingClaims.has(claimant)) this.#wakeNextClaimant();
  }

  #exceedsIdentityLimit({ identity, bytes }: Claim): boolean {
    const claimedBytes = this.#claimedByIdentity.get(identity) ?? 0;
    return claimedBytes > 0 && claimedBytes + bytes > this.limitBytes * this.#identityFraction;
  }

  #fitsLimit({ bytes }: Claim): boolean {
    return this.#claimedBytes === 0 || this.#claimedBytes + bytes <= this.limitBytes * CLAIMABLE_FRACTION;
  }

  /** Returns the claimant whose identity has claimed the least; of several the one that has waited longest. */
  #nextClaimant(): Claimant | undefined {
    let next: Claimant | undefined;
    let leastBytes = Number.POSITIVE_INFINITY;
    for (const [claimant, claim] of this.#waitingClaims) {
      const claimedBytes = this.#claimedByIdentity.get(claim.identity) ?? 0;
      if (claimedBytes >= leastBytes || !claimant.isReady || this.#exceedsIdentityLimit(claim)) continue;
      next = claimant;
      leastBytes = claimedBytes;
    }
    return next;
  }

  #wakeNextClaimant(): void {
    if (this.#waitingClaims.size === 0 || this.#isWakeScheduled) return;
    this.#isWakeScheduled = true;
    setImmediate(() => {
      this.#isWakeScheduled = false;
      const nextClaimant = this.#nextClaimant();
      if (nextClaimant && this.#fitsLimit(this.#waitingClaims.get(nextClaimant)!)) nextClaimant.wake();
    });
  }
}
