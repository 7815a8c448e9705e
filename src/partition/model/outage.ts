import { StoreError } from '../../store/store-error.js';

/** An outage is told no sooner after the one told before, in ms: part of a store may answer while another does not. */
const AGAIN_AFTER = 60_000;

/** Hears of outages. */
export interface OutageListener {
  /** The store does not answer: what it did not do. */
  began(message: string): void;
  /** It answers again, after so many ms. */
  ended(ms: number): void;
}

/** Whether the store of a directory answers, by what becomes of operations. */
export class Outage {
  listener: OutageListener | undefined;
  /** Operations that got no answer. */
  failures = 0;
  #since: number | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;

  /** One is under way, and the listener has heard of it. */
  get isTold(): boolean {
    return this.#since !== undefined && this.#toldAt >= this.#since;
  }

  /** An operation has failed. */
  failed(error: unknown): void {
    if (!(error instanceof StoreError) || error.code !== 'unavailable') return;
    this.failures++;
    if (this.#since !== undefined) return;
    const now = performance.now();
    this.#since = now;
    if (now - this.#toldAt < AGAIN_AFTER) return;
    this.#toldAt = now;
    this.listener?.began(error.message.split('\n', 1)[0]!);
  }

  /** An operation has succeeded; `failures` is as it was when that began: an older one proves nothing. */
  succeeded(failures: number): void {
    if (this.#since === undefined || failures !== this.failures) return;
    const { isTold } = this;
    const ms = performance.now() - this.#since;
    this.#since = undefined;
    if (isTold) this.listener?.ended(ms);
  }
}
