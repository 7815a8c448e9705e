import { Presets, SingleBar } from 'cli-progress';
import { formatNumber } from './exit.js';

const LINE_MS = 2000;
const BAR_MS = 100;

/** Progress of a command. `doneCount`: of units. `share`: the share of the work done, from 0 to 1, where known. */
export interface Progress {
  update(doneCount: number, share?: number): void;
  /** Begins a phase. Its `unit` replaces that of the phase before. */
  phase(name: string, unit?: string): void;
  /** Ends the display. May be called twice. */
  finish(): void;
}

/** A share of the work, from 0 to 1, and the time of `performance.now()` when it was done. */
interface Share {
  readonly share: number;
  readonly atMs: number;
}

interface Meter {
  readonly commandName: string;
  unit: string;
  readonly startMs: number;
  phase: string;
  doneCount: number;
  share: number | undefined;
  /** The first known share of the finished work, and its time. The time left is estimated from it. */
  firstShare: Share | undefined;
}

function formatRate(meter: Meter): string {
  const seconds = (performance.now() - meter.startMs) / 1000;
  return seconds > 0 ? formatNumber(meter.doneCount / seconds) : '0';
}

function recordProgress(meter: Meter, doneCount: number, share: number | undefined): void {
  meter.doneCount = doneCount;
  meter.share = share;
  if (share !== undefined) meter.firstShare ??= { share, atMs: performance.now() };
}

/** Returns the share done in percent and the time left, as far as they are known. */
function describeShare({ share, firstShare }: Meter): string[] {
  if (share === undefined || !firstShare) return [];
  return [`${Math.floor(share * 100)} %`, ...formatTimeLeft(firstShare, share, performance.now())];
}

/** Extrapolates the time left from two shares and their times in milliseconds. Empty when unknown. */
export function formatTimeLeft(first: Share, share: number, nowMs: number): string[] {
  if (share <= first.share || share >= 1) return [];
  const seconds = Math.ceil(((nowMs - first.atMs) * (1 - share)) / (share - first.share) / 1000);
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
  const makePayload = () => {
    const [share = '', timeLeft] = describeShare(meter);
    // Padded to overwrite a longer text of before.
    const paddedTimeLeft = (timeLeft === undefined ? '' : ` | ${timeLeft}`).padEnd(20);
    return {
      phase: meter.phase,
      share,
      count: formatNumber(meter.doneCount),
      unit: meter.unit,
      speed: formatRate(meter),
      left: paddedTimeLeft,
    };
  };
  let drawnMs = 0;
  let isRunning = true;
  bar.start(1000, 0, makePayload());
  const draw = (): void => bar.update(Math.floor((meter.share ?? 0) * 1000), makePayload());
  return {
    update(doneCount, share) {
      recordProgress(meter, doneCount, share);
      const now = performance.now();
      if (now - drawnMs < BAR_MS) return;
      drawnMs = now;
      draw();
    },
    phase(name, unit) {
      if (name === meter.phase) return;
      meter.phase = name;
      meter.unit = unit ?? meter.unit;
      draw();
    },
    finish() {
      if (!isRunning) return;
      isRunning = false;
      draw();
      bar.stop();
    },
  };
}

/** A plain line every two seconds, for logs. */
function lineProgress(meter: Meter): Progress {
  let printedMs = meter.startMs;
  const print = (): void => {
    const texts = [`${formatNumber(meter.doneCount)} ${meter.unit}`, `${formatRate(meter)}/s`, ...describeShare(meter)];
    process.stderr.write(`${meter.phase}: ${texts.join(', ')}\n`);
  };
  return {
    update(doneCount, share) {
      recordProgress(meter, doneCount, share);
      const now = performance.now();
      if (now - printedMs < LINE_MS) return;
      printedMs = now;
      print();
    },
    phase(name, unit) {
      if (name === meter.phase) return;
      meter.phase = name;
      meter.unit = unit ?? meter.unit;
      process.stderr.write(`${meter.commandName}: ${name}\n`);
    },
    finish() {},
  };
}

/** Shows progress on standard error: a bar on a terminal, else a line every two seconds. */
export function startProgress(commandName: string, unit: string): Progress {
  const meter: Meter = {
    commandName,
    unit,
    startMs: performance.now(),
    phase: commandName,
    doneCount: 0,
    share: undefined,
    firstShare: undefined,
  };
  return process.stderr.isTTY ? barProgress(meter) : lineProgress(meter);
}
