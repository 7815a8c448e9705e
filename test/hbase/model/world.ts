import { createHash } from 'node:crypto';
import type { CancelTimer, Clock } from '../../../src/store/hbase/journal/tickets.js';

/** A request of a front end that HBase has not answered. */
interface Request {
  readonly front: number;
  readonly text: string;
  /** Does it, and gives the answer as text. */
  readonly answer: (isLost?: boolean) => string;
  /** Of a front end that died: it may still arrive. */
  late: boolean;
}

interface Timer {
  readonly front: number;
  due: number;
  readonly every: number | undefined;
  readonly work: () => void;
}

/** How often a run may do what it need not. */
export interface Budget {
  /** Answering another front end than the one answered last, which has requests. */
  readonly switches: number;
  readonly crashes: number;
  /** Letting the clock go on while there are requests. */
  readonly hurries: number;
  /** Losing the answer to a change, which is then asked for once more. */
  readonly losses: number;
  /** Standing still, until the others have given it up. */
  readonly stalls: number;
}

export const NOTHING: Budget = { switches: 0, crashes: 0, hurries: 0, losses: 0, stalls: 0 };

export type Step =
  | { readonly do: 'answer' | 'lose'; readonly request: number }
  | { readonly do: 'crash' | 'stall' | 'wake'; readonly front: number }
  | { readonly do: 'tick' };

/**
 * All that happens to front ends: HBase answers one of their requests, a timer goes off, one of them dies. Between two
 * steps every front end does what it can without either.
 */
export class World {
  readonly #requests: Request[] = [];
  readonly #timers: Timer[] = [];
  readonly #dead = new Set<number>();
  readonly #stalled = new Set<number>();
  /** Of each front end what it has been told, in whatever order. */
  readonly #told: bigint[];
  #time = 0;
  #last = -1;
  #left: Budget;
  readonly trace: string[] = [];

  constructor(fronts: number, budget: Budget) {
    this.#told = Array<bigint>(fronts).fill(0n);
    this.#left = budget;
  }

  isDead(front: number): boolean {
    return this.#dead.has(front);
  }

  /** Whether a request of a dead front end has arrived, or may. */
  hasLate = false;

  /** Whether nobody who is awake waits for an answer. */
  get isQuiet(): boolean {
    return !this.#requests.some((request) => this.#isOpen(request));
  }

  #isOpen({ front, late }: Request): boolean {
    return !late && !this.#stalled.has(front);
  }

  isStalled(front: number): boolean {
    return this.#stalled.has(front);
  }

  /** Resolves with what `work` gives at the step that answers it. */
  request<T>(front: number, text: string, work: () => T, show: (answer: T) => string): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#dead.has(front)) return;
      const answer = (isLost = false): string => {
        try {
          const given = work();
          if (!isLost) resolve(given);
          return show(given);
        } catch (error) {
          reject(error);
          return String(error);
        }
      };
      this.#requests.push({ front, text, answer, late: false });
    });
  }

  clock(front: number): Clock {
    const add = (ms: number, work: () => void, every?: number): CancelTimer => {
      const timer: Timer = { front, due: this.#time + Math.max(0, ms), every, work };
      if (!this.#dead.has(front)) this.#timers.push(timer);
      return () => {
        const at = this.#timers.indexOf(timer);
        if (at >= 0) this.#timers.splice(at, 1);
      };
    };
    return {
      now: () => this.#time,
      sleep: (ms) => new Promise((resolve) => void add(ms, resolve)),
      runAfter: (ms, work) => add(ms, work),
      runEvery: (ms, work) => add(ms, work, ms),
      defer: queueMicrotask,
    };
  }

  /** What may be next; the first is what is usual. `mayWake`: whether others have given up one that stands still. */
  steps(mayWake: (front: number) => boolean = () => true): Step[] {
    const { switches, crashes, hurries, losses, stalls } = this.#left;
    const usual: Step[] = [];
    const steps: Step[] = [];
    const isBusy = this.#requests.some((request) => request.front === this.#last && this.#isOpen(request));
    for (const [request, one] of this.#requests.entries()) {
      if (this.#stalled.has(one.front)) continue;
      const isUsual = !one.late && (!isBusy || one.front === this.#last);
      if (isUsual) usual.push({ do: 'answer', request });
      else if (switches > 0) steps.push({ do: 'answer', request });
      if (isUsual && losses > 0 && one.text.startsWith('change')) steps.push({ do: 'lose', request });
    }
    const sleepers = [...this.#stalled].filter(mayWake);
    for (const front of sleepers) usual.push({ do: 'wake', front });
    if (this.#nextTimer()) {
      if (this.isQuiet && sleepers.length === 0) usual.push({ do: 'tick' });
      else if (hurries > 0) steps.push({ do: 'tick' });
    }
    // Whether one dies before or after another was answered makes no difference.
    const front = this.#last;
    if (front >= 0 && !this.#dead.has(front) && !this.#stalled.has(front)) {
      if (crashes > 0) steps.push({ do: 'crash', front });
      if (stalls > 0) steps.push({ do: 'stall', front });
    }
    return [...usual, ...steps];
  }

  #nextTimer(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers)
      if (!this.#stalled.has(timer.front) && (!next || timer.due < next.due)) next = timer;
    return next;
  }

  /** Resolves when front ends have done all they can: nothing of theirs waits for anything but steps. */
  rest(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'answer':
        this.#answer(step.request);
        break;
      case 'lose':
        this.#spend('losses');
        // Done, and done once more.
        this.#requests[step.request]!.answer(true);
        this.trace.push(`lost: ${this.#requests[step.request]!.text}`);
        this.#answer(step.request);
        break;
      case 'stall':
        this.#spend('stalls');
        this.#stalled.add(step.front);
        this.trace.push(`stall ${step.front}`);
        break;
      case 'wake':
        this.#stalled.delete(step.front);
        this.trace.push(`wake ${step.front}`);
        break;
      case 'tick':
        this.#tick();
        break;
      case 'crash':
        this.#crash(step.front);
    }
    await this.rest();
  }

  #spend(what: keyof Budget): void {
    this.#left = { ...this.#left, [what]: this.#left[what] - 1 };
  }

  #answer(index: number): void {
    const isBusy = this.#requests.some((request) => request.front === this.#last && this.#isOpen(request));
    const [request] = this.#requests.splice(index, 1);
    const { front, text, answer, late } = request!;
    if (late || (isBusy && front !== this.#last)) this.#spend('switches');
    const given = answer();
    this.trace.push(`${late ? 'late ' : ''}${front}: ${text} -> ${given}`);
    if (late) return;
    this.#last = front;
    this.#told[front]! += digest(`${text} -> ${given}`);
  }

  #tick(): void {
    if (!this.isQuiet) this.#spend('hurries');
    const next = this.#nextTimer()!;
    this.#time = Math.max(this.#time, next.due);
    if (next.every !== undefined) {
      next.due = this.#time + next.every;
      this.#timers.splice(this.#timers.indexOf(next), 1);
      this.#timers.push(next);
    } else this.#timers.splice(this.#timers.indexOf(next), 1);
    this.trace.push(`tick ${this.#time} of ${next.front}`);
    this.#told[next.front]! += digest(`tick ${this.#time}`);
    next.work();
  }

  #crash(front: number): void {
    this.#spend('crashes');
    this.trace.push(`crash ${front}`);
    this.#dead.add(front);
    for (let i = this.#timers.length; i-- > 0; ) if (this.#timers[i]!.front === front) this.#timers.splice(i, 1);
    for (let i = this.#requests.length; i-- > 0; ) {
      const request = this.#requests[i]!;
      if (request.front !== front) continue;
      // A read that nobody waits for changes nothing.
      if (request.text.startsWith('read')) this.#requests.splice(i, 1);
      else {
        request.late = true;
        this.hasLate = true;
      }
    }
  }

  /**
   * Two runs that come to the same state go on in the same way. A front end's own state follows from what it was told;
   * answers to requests that it made at once may come in any order, which is taken to leave it in the same state.
   */
  state(store: string): string {
    const requests = this.#requests.map(({ front, text, late }) => `${front} ${text} ${late}`).sort();
    const timers = this.#timers.map(({ front, due }) => `${front} ${due}`).sort();
    const parts = [store, this.#told.join(), requests.join('\n'), timers.join(), [...this.#dead].join()];
    return createHash('sha1')
      .update([...parts, [...this.#stalled].join(), this.#time, this.#last, JSON.stringify(this.#left)].join('\0'))
      .digest('base64');
  }
}

/** The same number for the same text. */
function digest(text: string): bigint {
  return createHash('sha1').update(text).digest().readBigUInt64BE();
}
