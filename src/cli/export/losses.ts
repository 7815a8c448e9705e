import { uuidText } from '../../partition/index.js';
import type { LostEntry, SalvagedEntry } from '../../partition/upkeep/salvage.js';
import { pluralize } from '../exit.js';
import type { OutputStream } from './output.js';

/** Reports what an export could not read: on standard error, and as comments in the output. */
export class LossReport {
  readonly #output: OutputStream;
  #entryCount = 0;
  #valueCount = 0;

  constructor(output: OutputStream) {
    this.#output = output;
  }

  async reportEntry({ id, dn, reason }: LostEntry): Promise<void> {
    this.#entryCount++;
    const uuid = id ? `entryUUID ${uuidText(id)}` : 'unknown entries';
    await this.#printLoss(`lost entry: ${dn ? escapeControls(dn) : 'its name is not known'} (${uuid}; ${reason})`);
  }

  async reportValue({ id, dn }: SalvagedEntry, attribute: string): Promise<void> {
    this.#valueCount++;
    await this.#printLoss(`lost value: ${attribute} of ${escapeControls(dn)} (entryUUID ${uuidText(id)})`);
  }

  async #printLoss(message: string): Promise<void> {
    process.stderr.write(`rowan: ${message}\n`);
    await this.#writeComment(message);
  }

  async #writeComment(text: string): Promise<void> {
    await this.#output.write(Buffer.from(`# ${text}\n\n`));
  }

  /** Ends partial output with a comment. */
  async end(): Promise<void> {
    if (this.isPartial) await this.#writeComment(this.summary);
  }

  get isPartial(): boolean {
    return this.#entryCount + this.#valueCount > 0;
  }

  get summary(): string {
    const entries = pluralize(this.#entryCount, 'entry', 'entries');
    const values = this.#valueCount > 0 ? ` and ${pluralize(this.#valueCount, 'value')}` : '';
    return `this export is partial: ${entries}${values} could not be read`;
  }
}

/** Escapes control characters, which keeps the DN on one line. */
function escapeControls(dn: Buffer): string {
  return dn.toString().replace(/\p{Cc}/gu, (char) => `\\${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
