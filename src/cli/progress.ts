import { Presets, SingleBar } from 'cli-progress';
import { formatCount } from './exit.js';

const LINE_MS = 2000;
const BAR_MS = 100;

/**
 * How far a long command is. `done` counts `unit`s; `part` is the share of the work done, 0 to 1, where it is known.
 */
export interface Progress {
  update(done: number, part?: number): void;
  /** Names what happens now, and what is counted then, where that is another unit. */
  phase(name: string, unit?: string): void;
  /** Ends the display. Safe to call twice. */
  finish(): void;
}

interface Meter {
  readonly name: string;
  unit: string;
  readonly start: number;
  phase: string;
  done: number;
  part: number | undefined;
  /** The first share that was told, and when, monotonic ms. */
  first: { readonly part: number; readonly at: number } | undefined;
}

function rate(meter: Meter): string {
  const seconds = (performance.now() - meter.start) / 1000;
  return seconds > 0 ? formatCount(meter.done / seconds) : '0';
}

function note(meter: Meter, done: number, part: number | undefined): void {
  meter.done = done;
  meter.part = part;
  if (part !== undefined) meter.first ??= { part, at: performance.now() };
}

/** The share that is done, and how long the rest takes. */
function shares({ part, first }: Meter): string[] {
  if (part === undefined || !first) return [];
  return [`${Math.floor(part * 100)} %`, ...timeLeft(first, part, performance.now())];
}

/** How long the rest takes if it goes on as from share `first.part` at `first.at` to `part` now, ms; none: unknown. */
export function timeLeft(first: { readonly part: number; readonly at: number }, part: number, now: number): string[] {
  if (part <= first.part || part >= 1) return [];
  const seconds = Math.ceil(((now - first.at) * (1 - part)) / (part - first.part) / 1000);
  return [seconds < 120 ? `${seconds} s left` : `${formatCount(Math.ceil(seconds / 60))} min left`];
}

/** A bar that is redrawn, for a person. */
function barProgress(meter: Meter): Progress {
  const bar = new SingleBar(
    {
      format: '{phase} [{bar}] {share} | {count} {unit} | {speed}/s{left}',
      stream: process.stderr,
      fps: 10,
      hideCursor: true,
      clearOnComplete: false,
      gracefulExit: false,
    },
    Presets.legacy,
  );
  const payload = () => {
    const [share = '', left] = shares(meter);
    // Blanks stand where a longer text may have stood.
    const rest = (left === undefined ? '' : ` | ${left}`).padEnd(20);
    return {
      phase: meter.phase,
      share,
      count: formatCount(meter.done),
      unit: meter.unit,
      speed: rate(meter),
      left: rest,
    };
  };
  let drawn = 0;
  let running = true;
  bar.start(1000, 0, payload());
  const draw = (): void => bar.update(Math.floor((meter.part ?? 0) * 1000), payload());
  return {
    update(done, part) {
      note(meter, done, part);
      const now = performance.now();
      if (now - drawn < BAR_MS) return;
      drawn = now;
      draw();
    },
    phase(name, unit) {
      if (name === meter.phase) return;
      meter.phase = name;
      meter.unit = unit ?? meter.unit;
      draw();
    },
    finish() {
      if (!running) return;
      running = false;
      draw();
      bar.stop();
    },
  };
}

/** A plain line every two seconds, for logs. */
function lineProgress(meter: Meter): Progress {
  let printed = meter.start;
  const print = (): void => {
    const parts = [`${formatCount(meter.done)} ${meter.unit}`, `${rate(meter)}/s`, ...shares(meter)];
    process.stderr.write(`${meter.phase}: ${parts.join(', ')}\n`);
  };
  return {
    update(done, part) {
      note(meter, done, part);
      const now = performance.now();
      if (now - printed < LINE_MS) return;
      printed = now;
      print();
    },
    phase(name, unit) {
      if (name === meter.phase) return;
      meter.phase = name;
      meter.unit = unit ?? meter.unit;
      process.stderr.write(`${meter.name}: ${name}\n`);
    },
    finish() {},
  };
}

/** Shows progress on standard error: a bar when that is a terminal, else a line every two seconds. */
export function startProgress(name: string, unit: string): Progress {
  const meter: Meter = {
    name,
    unit,
    start: performance.now(),
    phase: name,
    done: 0,
    part: undefined,
    first: undefined,
  };
  return process.stderr.isTTY ? barProgress(meter) : lineProgress(meter);
}
