const { now } = performance;

/** A clock of this process, `performance.now()`, that goes on only when it is told to. */
export class StoppedClock {
  #ms = performance.now();

  constructor() {
    performance.now = () => this.#ms;
  }

  pass(ms: number): void {
    this.#ms += ms;
  }

  [Symbol.dispose](): void {
    performance.now = now;
  }
}
