import { onInterruption } from '../interruption.js';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const CTRL_C = '\x03';
const { stdin, stdout } = process;

/** The whole terminal as a page that is drawn again and again. */
export class Screen {
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
