import { slowWork } from '../../src/password/index.js';

export interface Gate {
  /** Resolves when `open` is called. */
  readonly opened: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** Slow work of this process, hashing and verifying, that is kept from its turns. */
export interface Held {
  /** Pieces that have come since. */
  readonly waiting: number;
  /** Resolves when so many wait, or when `condition` is true. */
  until(condition: number | (() => boolean)): Promise<void>;
  goOn(): void;
}

export function hold(): Held {
  const { opened, open } = gate();
  while (slowWork.waitingCount === 0) void slowWork.run(() => opened);
  const before = slowWork.waitingCount;
  const held: Held = {
    get waiting() {
      return slowWork.waitingCount - before;
    },
    until: async (condition) => {
      const isSo = typeof condition === 'number' ? () => held.waiting === condition : condition;
      while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
    },
    goOn: open,
  };
  return held;
}
