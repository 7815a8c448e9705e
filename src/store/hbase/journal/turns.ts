import { StoreError } from '../../store-error.js';
import type { Clock, Stop } from './clock.js';
import type { Tickets } from './tickets.js';

/**
 * Turns of plans that hold gates while they wait are below this one, all others above: who waits for a gate must not
 * go before who holds it.
 */
const ORDINARY = 1n << 62n;

/**
 * One plan's place among those that wait, at all front ends: a number that is drawn when the plan first has to wait,
 * and kept until it ends. The least goes first, so there is always a plan that nobody may pass, and none waits for
 * ever. The plan has a deadline, too: whoever asked for it is answered then.
 */
export class Turn {
  /** Undefined: it has not waited yet. */
  number: bigint | undefined;
  readonly #clock: Clock;
  readonly #deadline: number;
  readonly #gated: boolean;
  /** Whether the mutation that decides the plan may have been sent. */
  #begun = false;
  #late = false;
  #waits = 0;

  /** `ms`: until its deadline. `gated`: its front end holds gates of tables for it. */
  constructor(clock: Clock, ms: number, gated = false) {
    this.#clock = clock;
    this.#deadline = clock.now() + ms;
    this.#gated = gated;
  }

  /** The plan's outcome, or `unavailable` at its deadline. What still runs then ends where it next calls `check`. */
  async bounded<T>(work: Promise<T>): Promise<T> {
    let stop: Stop | undefined;
    const late = new Promise<never>((_, reject) => {
      stop = this.#clock.after(this.#deadline - this.#clock.now(), () => {
        this.#late = true;
        reject(this.#unavailable());
      });
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      stop?.();
    }
  }

  #unavailable(): StoreError {
    return this.#begun
      ? new StoreError('unavailable', 'the store did not answer while a plan was applied', { applied: 'unknown' })
      : new StoreError(
          'unavailable',
          'other front ends hold rows of a plan for too long (one that died, until the others give it up: try again), ' +
            'or the store does not answer',
        );
  }

  /** Throws past the deadline: nothing may be decided any more. */
  check(): void {
    if (this.#late || this.#clock.now() > this.#deadline) throw this.#unavailable();
  }

  /** As `check`; from now on its outcome is open. */
  begin(): void {
    this.check();
    this.#begun = true;
  }

  /** Draws the number. */
  async take(tickets: Tickets): Promise<bigint> {
    if (this.number === undefined) {
      const ticket = await tickets.draw(1);
      this.number ??= this.#gated ? ticket : ticket | ORDINARY;
    }
    return this.number;
  }

  pause(first: number, longest: number): Promise<void> {
    return this.#clock.sleep(Math.min(longest, first * 2 ** Math.min(this.#waits++, 10)));
  }
}

/** A row that a plan wants, for itself or with others. */
export interface Want {
  readonly id: string;
  readonly exclusive: boolean;
}

/** What another front end asks for: the earliest turn of its plans that wait for the row. */
export interface Ask extends Want {
  /** Who asks for what. */
  readonly name: Buffer;
  /** Qualifier of the page that says so. */
  readonly page: Buffer;
  readonly turn: bigint;
  /** As it was said last: it changes whenever it is said again. */
  readonly said: Buffer;
}

function askId({ page, name }: Ask): string {
  return `${page.toString('latin1')}${name.toString('latin1')}`;
}

interface Heard extends Ask {
  /** When it was said last. */
  readonly since: number;
}

/**
 * Who goes first at each row: the plans of this front end that wait for it, or those of the others, which ask for it. A
 * row that is asked for by an earlier turn than any that waits here is given, and nobody here takes it before the one
 * who asks has had it.
 */
export class Turns {
  readonly #clock: Clock;
  readonly #heed: number;
  readonly #waiting = new Map<string, Set<Turn>>();
  #heard = new Map<string, Heard[]>();

  constructor(clock: Clock, heed: number) {
    this.#clock = clock;
    this.#heed = heed;
  }

  /** Whether anybody waits, here or there. */
  get busy(): boolean {
    return this.#waiting.size > 0 || this.#heard.size > 0;
  }

  /** The plan waits, for one of these rows or another. */
  begin(turn: Turn, wants: readonly Want[]): void {
    for (const { id } of wants) {
      const known = this.#waiting.get(id);
      if (known) known.add(turn);
      else this.#waiting.set(id, new Set([turn]));
    }
  }

  /** It waits no more. */
  end(turn: Turn, wants: readonly Want[]): void {
    for (const { id } of wants) {
      const known = this.#waiting.get(id);
      known?.delete(turn);
      if (known?.size === 0) this.#waiting.delete(id);
    }
  }

  /**
   * All that is asked now. Gives what was said since the last time, and what was not said again for too long: whoever
   * asked has given up, or is dead.
   */
  heard(asks: readonly Ask[]): { readonly fresh: readonly Ask[]; readonly old: readonly Ask[] } {
    const now = this.#clock.now();
    const before = new Map<string, Heard>();
    for (const list of this.#heard.values()) for (const ask of list) before.set(askId(ask), ask);
    const fresh: Ask[] = [];
    const old: Ask[] = [];
    this.#heard = new Map();
    for (const ask of asks) {
      const known = before.get(askId(ask));
      const since = known?.said.equals(ask.said) ? known.since : now;
      if (since === now) fresh.push(ask);
      if (now - since > this.#heed) old.push(ask);
      const list = this.#heard.get(ask.id);
      const heard = { ...ask, since };
      if (list) list.push(heard);
      else this.#heard.set(ask.id, [heard]);
    }
    return { fresh, old };
  }

  /** The earliest turn of others that keeps who wants the row so from taking it. */
  #before({ id, exclusive }: Want): bigint | undefined {
    let earliest: bigint | undefined;
    const now = this.#clock.now();
    for (const ask of this.#heard.get(id) ?? []) {
      if (now - ask.since > this.#heed || !(exclusive || ask.exclusive)) continue;
      if (earliest === undefined || ask.turn < earliest) earliest = ask.turn;
    }
    return earliest;
  }

  /** Whether a plan may take the row; its `turn` is undefined where it has not waited yet. */
  mayTake(want: Want, turn: bigint | undefined): boolean {
    if (this.#heard.size === 0) return true;
    const before = this.#before(want);
    return before === undefined || (turn !== undefined && turn < before);
  }

  /** Rows that this front end may not go on holding shared. */
  owed(): string[] {
    return [...this.#heard.keys()].filter((id) => this.#isOwed(id));
  }

  #isOwed(id: string): boolean {
    const before = this.#before({ id, exclusive: false });
    if (before === undefined) return false;
    for (const { number } of this.#waiting.get(id) ?? []) if (number !== undefined && number < before) return false;
    return true;
  }
}
