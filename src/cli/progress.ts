import { Presets, SingleBar } from 'cli-progress';
import { formatCount } from './exit.js';

const LINE_MS = 2000;
const BAR_MS = 100;

/**
 * How far a long command is. `done` counts `unit`s; `part` is the share of the work done, 0 to 1, where it is known.
 */
export interface Progress {
  update(done: number, part?: number): void;
  /** Names what happens now. */
  phase(name: string): void;
  /** Ends the display. Safe to call twice. */
  finish(): void;
}

interface Meter {
  readonly name: string;
  readonly unit: string;
  readonly start: number;
  phase: string;
  done: number;
  part: number | undefined;
}

function rate(meter: Meter): string {
  const seconds = (performance.now() - meter.start) / 1000;
  return seconds > 0 ? formatCount(meter.done / seconds) : '0';
}

/** A bar that is redrawn, for a person. */
function barProgress(meter: Meter): Progress {
  const bar = new SingleBar(
    {
      format: `{phase} [{bar}] {share} | {count} ${meter.unit} | {speed}/s`,
      stream: process.stderr,
      fps: 10,
      hideCursor: true,
      clearOnComplete: false,
      gracefulExit: false,
    },
    Presets.legacy,
  );
  const payload = () => ({
    phase: meter.phase,
    share: meter.part === undefined ? '' : `${Math.floor(meter.part * 100)} %`,
    count: formatCount(meter.done),
    speed: rate(meter),
  });
  let drawn = 0;
  let running = true;
  bar.start(1000, 0, payload());
  const draw = (): void => bar.update(Math.floor((meter.part ?? 0) * 1000), payload());
  return {
    update(done, part) {
      meter.done = done;
      meter.part = part;
      const now = performance.now();
      if (now - drawn < BAR_MS) return;
      drawn = now;
      draw();
    },
    phase(name) {
      if (name === meter.phase) return;
      meter.phase = name;
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
    const share = meter.part === undefined ? '' : `, ${Math.floor(meter.part * 100)} %`;
    process.stderr.write(`${meter.phase}: ${formatCount(meter.done)} ${meter.unit}, ${rate(meter)}/s${share}\n`);
  };
  return {
    update(done, part) {
      meter.done = done;
      meter.part = part;
      const now = performance.now();
      if (now - printed < LINE_MS) return;
      printed = now;
      print();
    },
    phase(name) {
      if (name === meter.phase) return;
      meter.phase = name;
      process.stderr.write(`${meter.name}: ${name}\n`);
    },
    finish() {},
  };
}

/** Shows progress on standard error: a bar when that is a terminal, else a line every two seconds. */
export function startProgress(name: string, unit: string): Progress {
  const meter: Meter = { name, unit, start: performance.now(), phase: name, done: 0, part: undefined };
  return process.stderr.isTTY ? barProgress(meter) : lineProgress(meter);
}
