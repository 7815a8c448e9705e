import { uuidText } from '../../partition/index.js';
import type { LostEntry, SalvagedEntry } from '../../partition/upkeep/salvage.js';
import { pluralize } from '../exit.js';
import type { OutputStream } from './output.js';

/** Reports what an export could not read: on standard error, and as comments in the output. */
export class LossReport {
  readonly #output: OutputStream;
  #entries = 0;
  #values = 0;

  constructor(output: OutputStream) {
    this.#output = output;
  }

  async reportEntry({ id, dn, why }: LostEntry): Promise<void> {
    this.#entries++;
    const uuid = id ? `entryUUID ${uuidText(id)}` : 'unknown entries';
    await this.#report(`lost entry: ${dn ? escapeControls(dn) : 'its name is not known'} (${uuid}; ${why})`);
  }

  async reportValue({ id, dn }: SalvagedEntry, attribute: string): Promise<void> {
    this.#values++;
    await this.#report(`lost value: ${attribute} of ${escapeControls(dn)} (entryUUID ${uuidText(id)})`);
  }

  async #report(what: string): Promise<void> {
    process.stderr.write(`rowan: ${what}\n`);
    await this.#comment(what);
  }

  async #comment(text: string): Promise<void> {
    await this.#output.write(Buffer.from(`# ${text}\n\n`));
  }

  /** Ends partial output with a comment. */
  async end(): Promise<void> {
    if (this.isPartial) await this.#comment(this.summary);
  }

  get isPartial(): boolean {
    return this.#entries + this.#values > 0;
  }

  get summary(): string {
    const entries = pluralize(this.#entries, 'entry', 'entries');
    const values = this.#values > 0 ? ` and ${pluralize(this.#values, 'value')}` : '';
    return `this export is partial: ${entries}${values} could not be read`;
  }
}

/** Escapes control characters, which keeps the DN on one line. */
function escapeControls(dn: Buffer): string {
  return dn.toString().replace(/\p{Cc}/gu, (char) => `\\${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
