import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import type { TopSample } from '../../server/processes/siblings.js';
import { ControlClient, controlCommand } from '../control-client.js';
import { onInterruption } from '../last-resort.js';
import { figuresBetween, formatTop, type TopFigures } from '../watch/top-page.js';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const CTRL_C = '\x03';
const { stdin, stdout } = process;

/** The whole terminal as a page that is drawn again and again. */
class Screen {
  readonly #onQuit: () => void;
  readonly #removeHandlers: () => void;
  #lines: readonly string[] = [];

  /** `onQuit` is called when the user presses `q` or Ctrl-C. */
  constructor(onQuit: () => void) {
    this.#onQuit = onQuit;
    stdout.write(ENTER);
    stdout.on('resize', this.#draw);
    process.once('exit', this.#restore);
    this.#removeHandlers = onInterruption(() => {
      this.#restore();
      return '';
    });
    if (stdin.isTTY) stdin.setRawMode(true).on('data', this.#onKey);
  }

  readonly #onKey = (keys: Buffer): void => {
    const text = keys.toString('latin1');
    if (text.includes('q') || text.includes(CTRL_C)) this.#onQuit();
  };

  show(lines: readonly string[]): void {
    this.#lines = lines;
    this.#draw();
  }

  readonly #draw = (): void => {
    const { columns, rows } = stdout;
    const visibleLines = this.#lines.slice(0, rows).map((line) => `${[...line].slice(0, columns).join('')}\x1b[K`);
    stdout.write(`\x1b[H${visibleLines.join('\r\n')}\x1b[J`);
  };

  readonly #restore = (): void => {
    if (stdin.isTTY) stdin.setRawMode(false);
    stdout.write(LEAVE);
  };

  /** Gives the terminal back as it was. */
  close(): void {
    process.off('exit', this.#restore);
    this.#removeHandlers();
    this.#restore();
    stdout.off('resize', this.#draw);
    stdin.off('data', this.#onKey).pause();
  }
}

const EXAMPLES = `
Examples:
  What the server on a data folder does now, drawn again each second; q or Ctrl-C ends:
    rowan top --data data

  One second of it as text, or for a program:
    rowan top --data data --once
    rowan top --data data --once --json
`;

const INTERVAL_MS = 1000;

interface TopOptions {
  readonly once?: boolean;
  readonly json?: boolean;
}

/** Yields the figures of each interval until the signal. */
async function* sampleFigures(control: ControlClient, signal: AbortSignal): AsyncGenerator<TopFigures> {
  const path = `/top?watcher=${randomUUID()}`;
  const read = async (): Promise<TopSample[]> => JSON.parse(await control.request('GET', path)) as TopSample[];
  let earlier = await read();
  for (;;) {
    try {
      await sleep(INTERVAL_MS, undefined, { signal });
    } catch {
      // The user has ended the page.
      return;
    }
    const later = await read();
    yield figuresBetween(earlier, later);
    earlier = later;
  }
}

async function top({ once, json }: TopOptions, command: Command): Promise<void> {
  const control = await ControlClient.find(command);
  const ending = new AbortController();
  const isLive = !once && !json && process.stdout.isTTY;
  const screen = isLive ? new Screen(() => ending.abort()) : undefined;
  try {
    for await (const figures of sampleFigures(control, ending.signal)) {
      const lines = formatTop(figures, `rowan ${new Date().toISOString().slice(11, 19)} UTC`);
      if (screen) screen.show(lines);
      else process.stdout.write(json ? `${JSON.stringify(figures)}\n` : `${lines.join('\n')}\n\n`);
      if (once) return;
    }
  } finally {
    screen?.close();
  }
}

export function addTop(program: Command): void {
  controlCommand(program, 'top', 'show what a running server does: operations, clients, slow searches', EXAMPLES)
    .option('--once', 'one sample of one second, then end')
    .option('--json', 'a line of JSON for each sample')
    .action(top);
}
