import type { Logger } from 'pino';
import type { Schema } from '../../schema/schema.js';
import { cutDn } from '../observation/request-description.js';
import { printable } from '../words/printable.js';

/** Most lines in a second, so that a flood of binds cannot fill a disk quickly: of one network, and of all together. */
const MAX_PER_NETWORK = 20;
const MAX_PER_SECOND = 500;

/** The client of a failed bind. */
interface BindSource {
  readonly transport: { readonly address: string | undefined; readonly network: string };
  readonly session: { readonly connectionNumber: number };
}

/**
 * Logs each failed bind in one line of a fixed form, which programs such as fail2ban read (docs/operations.md). The
 * address precedes all texts of the client.
 */
export class FailedBinds {
  readonly #log: Logger;
  readonly #schema: Schema;
  #second = 0;
  #lineCount = 0;
  #leftOutCount = 0;
  /** Number of lines of this second by network. */
  readonly #lineCounts = new Map<string, number>();

  constructor(schema: Schema, log: Logger) {
    this.#schema = schema;
    this.#log = log;
  }

  report({ transport, session }: BindSource, dn: string, reason: string): void {
    const second = Math.floor(performance.now() / 1000);
    if (second !== this.#second) {
      const leftOut = this.#leftOutCount;
      if (leftOut > 0) this.#log.warn({ leftOut }, 'failed binds in one second that were not logged');
      this.#second = second;
      this.#lineCount = this.#leftOutCount = 0;
      this.#lineCounts.clear();
    }
    const { address, network } = transport;
    const networkCount = this.#lineCounts.get(network) ?? 0;
    if (networkCount === MAX_PER_NETWORK || this.#lineCount === MAX_PER_SECOND) {
      this.#leftOutCount++;
      return;
    }
    this.#lineCounts.set(network, networkCount + 1);
    this.#lineCount++;
    const connection = session.connectionNumber;
    const name = printable(cutDn(dn, this.#schema));
    this.#log.info({ address, connection, dn: name }, `failed bind: ${reason}`);
  }
}
