/** Who asks for memory and may have to wait. */
export interface Claimant {
  /** Whether it would claim if it were woken: who has to wait for something else keeps nobody behind waiting. */
  readonly ready: boolean;
  /** There may be room now: it is to ask again. */
  wake(): void;
}

interface Claim {
  /** On whose behalf. */
  readonly who: string;
  readonly bytes: number;
}

/** This part of a budget is there for claims; the rest is left for small amounts. */
const CLAIMS = 3 / 4;
/** Nobody claims more than this part, unless it is one claim. */
const SHARE = 1 / 2;

/**
 * Memory that all connections of a server have together for requests. Small amounts are taken without asking; large
 * ones are claimed, and a claim that does not fit waits for its turn. One who has his share, or is not ready, does not
 * keep others waiting, and keeps his place.
 */
export class Budget {
  readonly #limit: number;
  #used = 0;
  #allClaimed = 0;
  readonly #claimed = new Map<string, number>();
  /** In the order in which they came. */
  readonly #waiting = new Map<Claimant, Claim>();
  #waking = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size;
  }

  get free(): number {
    return this.#limit - this.#used;
  }

  take(bytes: number): void {
    this.#used += bytes;
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }

  /** True when the bytes were taken; else the claimant waits, and is woken when it is to ask again. */
  claim(claimant: Claimant, who: string, bytes: number): boolean {
    const claim = { who, bytes };
    const first = this.#first();
    if ((first && first !== claimant) || this.#overShare(claim) || !this.#fits(claim)) {
      this.#waiting.set(claimant, claim);
      return false;
    }
    this.#waiting.delete(claimant);
    this.#used += bytes;
    this.#allClaimed += bytes;
    this.#claimed.set(who, (this.#claimed.get(who) ?? 0) + bytes);
    this.#wakeNext();
    return true;
  }

  /** Gives back what was claimed. */
  giveBack(who: string, bytes: number): void {
    const left = (this.#claimed.get(who) ?? 0) - bytes;
    if (left > 0) this.#claimed.set(who, left);
    else this.#claimed.delete(who);
    this.#allClaimed -= bytes;
    this.#used -= bytes;
    this.#wakeNext();
  }

  /** It waits no longer. */
  forget(claimant: Claimant): void {
    if (this.#waiting.delete(claimant)) this.#wakeNext();
  }

  /** It may have been woken and was not ready: its turn is that of the next. */
  pass(claimant: Claimant): void {
    if (this.#waiting.has(claimant)) this.#wakeNext();
  }

  #overShare({ who, bytes }: Claim): boolean {
    const claimed = this.#claimed.get(who) ?? 0;
    return claimed > 0 && claimed + bytes > this.#limit * SHARE;
  }

  #fits({ bytes }: Claim): boolean {
    return this.#allClaimed === 0 || this.#allClaimed + bytes <= this.#limit * CLAIMS;
  }

  /** Whose turn it is. */
  #first(): Claimant | undefined {
    for (const [claimant, claim] of this.#waiting) if (!this.#overShare(claim) && claimant.ready) return claimant;
    return undefined;
  }

  #wakeNext(): void {
    if (this.#waiting.size === 0 || this.#waking) return;
    this.#waking = true;
    setImmediate(() => {
      this.#waking = false;
      const first = this.#first();
      if (first && this.#fits(this.#waiting.get(first)!)) first.wake();
    });
  }
}
