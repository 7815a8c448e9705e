const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const CTRL_C = '\x03';
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The whole terminal as a page that is drawn again and again. */
export class Screen {
  readonly #input = process.stdin;
  readonly #output = process.stdout;
  readonly #onEnd: () => void;
  #lines: readonly string[] = [];
  #isOpen = true;

  /** `onEnd` is called when the user presses `q` or Ctrl-C, and for a signal that ends the process. */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#output.write(ENTER);
    this.#output.on('resize', this.#draw);
    process.once('exit', this.#restore);
    for (const signal of SIGNALS) process.on(signal, onEnd);
    if (!this.#input.isTTY) return;
    this.#input.setRawMode(true);
    this.#input.on('data', this.#onKey);
  }

  readonly #onKey = (keys: Buffer): void => {
    const text = keys.toString('latin1');
    if (text.includes('q') || text.includes(CTRL_C)) this.#onEnd();
  };

  show(lines: readonly string[]): void {
    this.#lines = lines;
    this.#draw();
  }

  readonly #draw = (): void => {
    const { columns, rows } = this.#output;
    const visibleLines = this.#lines.slice(0, rows).map((line) => `${[...line].slice(0, columns).join('')}\x1b[K`);
    this.#output.write(`\x1b[H${visibleLines.join('\r\n')}\x1b[J`);
  };

  readonly #restore = (): void => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    if (this.#input.isTTY) this.#input.setRawMode(false);
    this.#output.write(LEAVE);
  };

  /** Gives the terminal back as it was. */
  close(): void {
    this.#restore();
    this.#output.off('resize', this.#draw);
    this.#input.off('data', this.#onKey).pause();
    process.off('exit', this.#restore);
    for (const signal of SIGNALS) process.off(signal, this.#onEnd);
  }
}
