import type { Logger } from 'pino';
import { printable } from '../words/printable.js';

/** Most lines in a second, so that a flood of binds cannot fill a disk quickly. */
const MAX_PER_SECOND = 100;

/** The client of a failed bind. */
interface BindSource {
  readonly transport: { readonly address: string | undefined };
  readonly session: { readonly connectionNumber: number };
}

/**
 * Logs each failed bind in one line of a fixed form, which programs such as fail2ban read (docs/operations.md). The
 * address precedes all texts of the client.
 */
export class FailedBinds {
  readonly #log: Logger;
  #second = 0;
  #lineCount = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  report({ transport, session }: BindSource, dn: string, reason: string): void {
    const second = Math.floor(Date.now() / 1000);
    if (second !== this.#second) {
      const leftOut = this.#lineCount - MAX_PER_SECOND;
      if (leftOut > 0) this.#log.warn({ leftOut }, 'failed binds in one second that were not logged');
      this.#second = second;
      this.#lineCount = 0;
    }
    if (++this.#lineCount > MAX_PER_SECOND) return;
    const { address } = transport;
    const connection = session.connectionNumber;
    this.#log.info({ address, connection, dn: printable(dn) }, `failed bind: ${reason}`);
  }
}
