import { randomBytes } from 'node:crypto';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { hasCode, isThere, type Layout } from './layout.js';
import { type Claim, claimText, NOBODY, newClaimant, newToken, parseClaim } from './names.js';

const ALIVE = '.alive-';
/** A claimant says so many times in the time of a lease that it lives. */
const BEATS = 5;

/** A file of `processing` that this process works on, until another finds that this one does not live any more. */
export interface Held {
  readonly claim: Claim;
  readonly path: string;
  /** It was somebody's before. */
  readonly taken: boolean;
}

/** What others have in `processing`. */
export interface Others {
  /** Names of claims whose claimants are gone, or are this process. */
  readonly free: readonly string[];
  /** How many claims are others'. */
  readonly held: number;
  /** Each of these others was seen to live since this process looks. */
  readonly alive: boolean;
}

/**
 * Which files are whose. A claim is a name in `processing`, and made by a rename that one alone can do. While it lives,
 * a claimant writes another number into a file of its own, from time to time; where that number has stood still for the
 * time of a lease, by the taker's own clock, its claims are taken over. No clocks of two machines are compared. A
 * claimant that lives and is taken for dead does no harm: what may be done is decided by the row of the file.
 */
export class Claims {
  readonly #layout: Layout;
  readonly #leaseMs: number;
  readonly #claimant = newClaimant();
  /** What other claimants have written last, and since when this process knows it. */
  #watched = new Map<string, { stamp: string; since: number; moved: boolean }>();
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;

  constructor(layout: Layout, leaseMs: number) {
    this.#layout = layout;
    this.#leaseMs = leaseMs;
  }

  /** Says that this process lives, from now on. */
  async start(): Promise<void> {
    if (this.#timer) return;
    await this.#beat();
    // Where it cannot be said, claims are lost to others, who say more.
    this.#timer = setInterval(() => void this.#beat().catch(() => undefined), this.#leaseMs / BEATS);
    this.#timer.unref();
  }

  #beat(): Promise<void> {
    return writeFile(this.#alive(this.#claimant), `${++this.#beats}\n`);
  }

  #alive(claimant: string): string {
    return this.#layout.path('processing', `${ALIVE}${claimant}`);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await rm(this.#alive(this.#claimant), { force: true });
  }

  /** Claims a file of `target`; undefined where another was faster. */
  claim(name: string): Promise<Held | undefined> {
    return this.#move(this.#layout.path('target', name), { token: newToken(), begun: false, name }, false);
  }

  /** Takes a claim over that is free; undefined where another was faster. */
  async take(text: string): Promise<Held | undefined> {
    const claim = parseClaim(text)!;
    const held = await this.#move(this.#layout.path('processing', text), claim, true);
    if (held) await this.#removeParts(claim.token);
    return held;
  }

  /** The file's row is there: from now on it says what is done. Undefined where another has the claim. */
  begin({ claim, path, taken }: Held): Promise<Held | undefined> {
    return this.#move(path, { ...claim, begun: true }, taken);
  }

  /** Leaves a claim to whoever wants it. */
  async release({ claim, path }: Held): Promise<void> {
    await moved(path, this.#layout.path('processing', claimText({ ...claim, claimant: NOBODY, time: Date.now() })));
  }

  async #move(
    from: string,
    { token, begun, name }: Pick<Claim, 'token' | 'begun' | 'name'>,
    taken: boolean,
  ): Promise<Held | undefined> {
    const claim = { token, begun, name, claimant: this.#claimant, time: Date.now() };
    const path = this.#layout.path('processing', claimText(claim));
    return from === path || (await moved(from, path)) ? { claim, path, taken } : undefined;
  }

  isHeld({ path }: Held): Promise<boolean> {
    return isThere(path);
  }

  /** Whether anybody has the file. */
  async isClaimed(token: string): Promise<boolean> {
    return (await readdir(this.#layout.path('processing'))).some((name) => parseClaim(name)?.token === token);
  }

  /** A new path for what is being written for a claim. */
  part({ claim }: Held): string {
    return this.#layout.path('processing', `.${claim.token}.${randomBytes(6).toString('hex')}`);
  }

  async #removeParts(token: string): Promise<void> {
    const names = await readdir(this.#layout.path('processing'));
    for (const name of names.filter((one) => one.startsWith(`.${token}.`)))
      await rm(this.#layout.path('processing', name), { force: true });
  }

  /** Looks at the claims of others; to be called again and again. */
  async others(): Promise<Others> {
    const names = await readdir(this.#layout.path('processing'));
    const claims = names.filter((name) => parseClaim(name));
    const claimants = new Set(claims.map((name) => parseClaim(name)!.claimant));
    for (const name of names) if (name.startsWith(ALIVE)) claimants.add(name.slice(ALIVE.length));
    for (const mine of [this.#claimant, NOBODY]) claimants.delete(mine);
    const watched = new Map<string, { stamp: string; since: number; moved: boolean }>();
    const dead = new Set<string>();
    for (const claimant of claimants) {
      const seen = await this.#look(claimant);
      watched.set(claimant, seen);
      if (performance.now() - seen.since >= this.#leaseMs) dead.add(claimant);
    }
    this.#watched = watched;
    const isFree = (name: string): boolean => {
      const { claimant } = parseClaim(name)!;
      return !claimants.has(claimant) || dead.has(claimant);
    };
    const held = claims.filter((name) => !isFree(name));

    for (const claimant of dead) await rm(this.#alive(claimant), { force: true });
    const alive = held.every((name) => watched.get(parseClaim(name)!.claimant)!.moved);
    return { free: claims.filter(isFree), held: held.length, alive };
  }

  async #look(claimant: string): Promise<{ stamp: string; since: number; moved: boolean }> {
    const stamp = await readFile(this.#alive(claimant), 'latin1').catch(() => '');
    const known = this.#watched.get(claimant);
    if (known?.stamp === stamp) return known;
    return { stamp, since: performance.now(), moved: known !== undefined && stamp !== '' };
  }
}

/** Whether the file was there. */
async function moved(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false;
    throw error;
  }
}
