import { Presets, SingleBar } from 'cli-progress';
import { formatNumber } from './exit.js';

const LINE_MS = 2000;
const BAR_MS = 100;

/** A share of the work, from 0 to 1, and the time of `performance.now()` when it was done. */
interface Share {
  readonly share: number;
  readonly atMs: number;
}

/** Extrapolates the time left from two shares and their times in milliseconds. Empty when unknown. */
export function formatTimeLeft(first: Share, share: number, nowMs: number): string[] {
  if (share <= first.share || share >= 1) return [];
  const seconds = Math.ceil(((nowMs - first.atMs) * (1 - share)) / (share - first.share) / 1000);
  return [seconds < 120 ? `${seconds} s left` : `${formatNumber(Math.ceil(seconds / 60))} min left`];
}

/** Progress of a command on standard error: a bar on a terminal, else a line every two seconds. */
export class Progress {
  readonly #commandName: string;
  readonly #startMs = performance.now();
  readonly #bar: SingleBar | undefined;
  #phase: string;
  #unit: string;
  #drawnMs = this.#startMs;
  #doneCount = 0;
  #share: number | undefined;
  /** The first known share of the finished work, and its time. The time left is estimated from it. */
  #firstShare: Share | undefined;

  constructor(commandName: string, unit: string) {
    this.#commandName = commandName;
    this.#phase = commandName;
    this.#unit = unit;
    if (!process.stderr.isTTY) return;
    const behavior = { fps: 10, hideCursor: true, clearOnComplete: false, gracefulExit: false };
    const format = '{phase} [{bar}] {share} | {count} | {rate}{left}';
    this.#bar = new SingleBar({ format, stream: process.stderr, ...behavior }, Presets.legacy);
    this.#bar.start(1000, 0, this.#describe());
  }

  /** `doneCount`: of units. `share`: the share of the work done, from 0 to 1, where known. */
  update(doneCount: number, share?: number): void {
    const nowMs = performance.now();
    this.#doneCount = doneCount;
    this.#share = share;
    if (share !== undefined) this.#firstShare ??= { share, atMs: nowMs };
    if (nowMs - this.#drawnMs < (this.#bar ? BAR_MS : LINE_MS)) return;
    this.#drawnMs = nowMs;
    this.#draw();
  }

  /** Begins a phase. Its `unit` replaces that of the phase before. */
  phase(name: string, unit = this.#unit): void {
    if (name === this.#phase) return;
    this.#phase = name;
    this.#unit = unit;
    if (this.#bar) this.#draw();
    else process.stderr.write(`${this.#commandName}: ${name}\n`);
  }

  /** Ends the display. May be called twice. */
  finish(): void {
    if (!this.#bar) return;
    this.#draw();
    this.#bar.stop();
  }

  #draw(): void {
    const texts = this.#describe();
    if (this.#bar) this.#bar.update(Math.floor((this.#share ?? 0) * 1000), texts);
    else {
      const { phase, count, rate, share, timeLeft } = texts;
      process.stderr.write(`${phase}: ${[count, rate, share, timeLeft].filter((text) => text !== '').join(', ')}\n`);
    }
  }

  /** Returns the parts of the display. Share and time left are '' while they are not known. */
  #describe() {
    const [nowMs, share, first] = [performance.now(), this.#share, this.#firstShare];
    const seconds = (nowMs - this.#startMs) / 1000;
    const isKnown = share !== undefined && first;
    const timeLeft = isKnown ? formatTimeLeft(first, share, nowMs).join('') : '';
    return {
      phase: this.#phase,
      count: `${formatNumber(this.#doneCount)} ${this.#unit}`,
      rate: `${seconds > 0 ? formatNumber(this.#doneCount / seconds) : '0'}/s`,
      share: isKnown ? `${Math.floor(share * 100)} %` : '',
      timeLeft,
      // Padded to overwrite a longer text of before.
      left: (timeLeft && ` | ${timeLeft}`).padEnd(20),
    };
  }
}
