import { countLatency, noLatencies } from './statistics.js';

const SAMPLE_MS = 100;
/** Number of samples in half of the time that `saturation` covers. */
const WINDOW_SAMPLES = 50;

/** Measures how late the event loop is, and how busy. */
export class EventLoopMeter {
  /** How late a timer of `SAMPLE_MS` was. */
  readonly lag = noLatencies();
  #sampledMs = performance.now();
  #sampleCount = 0;
  #windowStart = performance.eventLoopUtilization();
  #windowMiddle = this.#windowStart;
  readonly #timer = setInterval(() => this.#sample(), SAMPLE_MS).unref();

  #sample(): void {
    const nowMs = performance.now();
    countLatency(this.lag, Math.max(0, nowMs - this.#sampledMs - SAMPLE_MS));
    this.#sampledMs = nowMs;
    if (++this.#sampleCount % WINDOW_SAMPLES !== 0) return;
    this.#windowStart = this.#windowMiddle;
    this.#windowMiddle = performance.eventLoopUtilization();
  }

  /**
   * Share of the last 5 to 10 seconds in which the event loop was active, from 0 to 1. A request that arrives in this
   * time has to wait, since a process does one thing at a time.
   */
  get saturation(): number {
    return performance.eventLoopUtilization(this.#windowStart).utilization;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
