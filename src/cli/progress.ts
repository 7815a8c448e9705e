import { Presets, SingleBar } from 'cli-progress';
import { formatNumber } from './exit.js';

const LINE_MS = 2000;
const BAR_MS = 100;

/** Progress of a long command. `done` counts units; `part` is the share of the work done, from 0 to 1, where known. */
export interface Progress {
  update(done: number, part?: number): void;
  /** Begins a phase. Its `unit` replaces that of the phase before. */
  phase(name: string, unit?: string): void;
  /** Ends the display. May be called twice. */
  finish(): void;
}

interface Meter {
  readonly name: string;
  unit: string;
  readonly start: number;
  phase: string;
  done: number;
  part: number | undefined;
  /** The first known share, and its time of `performance.now()`. */
  firstShare: { readonly part: number; readonly at: number } | undefined;
}

function formatRate(meter: Meter): string {
  const seconds = (performance.now() - meter.start) / 1000;
  return seconds > 0 ? formatNumber(meter.done / seconds) : '0';
}

function record(meter: Meter, done: number, part: number | undefined): void {
  meter.done = done;
  meter.part = part;
  if (part !== undefined) meter.firstShare ??= { part, at: performance.now() };
}

/** Returns the share done in percent and the time left, as far as they are known. */
function describeShare({ part, firstShare }: Meter): string[] {
  if (part === undefined || !firstShare) return [];
  return [`${Math.floor(part * 100)} %`, ...timeLeft(firstShare, part, performance.now())];
}

/** Extrapolates the time left from two shares and their times in milliseconds. Empty when unknown. */
export function timeLeft(first: { readonly part: number; readonly at: number }, part: number, now: number): string[] {
  if (part <= first.part || part >= 1) return [];
  const seconds = Math.ceil(((now - first.at) * (1 - part)) / (part - first.part) / 1000);
  return [seconds < 120 ? `${seconds} s left` : `${formatNumber(Math.ceil(seconds / 60))} min left`];
}

/** A progress bar for a terminal. */
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
    const [share = '', left] = describeShare(meter);
    // Padded to overwrite a longer text of before.
    const rest = (left === undefined ? '' : ` | ${left}`).padEnd(20);
    return {
      phase: meter.phase,
      share,
      count: formatNumber(meter.done),
      unit: meter.unit,
      speed: formatRate(meter),
      left: rest,
    };
  };
  let drawn = 0;
  let running = true;
  bar.start(1000, 0, payload());
  const draw = (): void => bar.update(Math.floor((meter.part ?? 0) * 1000), payload());
  return {
    update(done, part) {
      record(meter, done, part);
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
    const parts = [`${formatNumber(meter.done)} ${meter.unit}`, `${formatRate(meter)}/s`, ...describeShare(meter)];
    process.stderr.write(`${meter.phase}: ${parts.join(', ')}\n`);
  };
  return {
    update(done, part) {
      record(meter, done, part);
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

/** Shows progress on standard error: a bar on a terminal, else a line every two seconds. */
export function startProgress(name: string, unit: string): Progress {
  const meter: Meter = {
    name,
    unit,
    start: performance.now(),
    phase: name,
    done: 0,
    part: undefined,
    firstShare: undefined,
  };
  return process.stderr.isTTY ? barProgress(meter) : lineProgress(meter);
}
