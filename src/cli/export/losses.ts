import { uuidText } from '../../partition/index.js';
import type { LostEntry, Salvaged } from '../../partition/upkeep/salvage.js';
import { counted } from '../exit.js';
import type { Output } from './output.js';

/** What an export could not read: told on standard error, and as comments where it would stand. */
export class Losses {
  readonly #output: Output;
  #entries = 0;
  #values = 0;

  constructor(output: Output) {
    this.#output = output;
  }

  async entry({ id, dn, why }: LostEntry): Promise<void> {
    this.#entries++;
    const uuid = id ? `entryUUID ${uuidText(id)}` : 'unknown entries';
    await this.#tell(`lost entry: ${dn ? plain(dn) : 'its name is not known'} (${uuid}; ${why})`);
  }

  async value({ id, dn }: Salvaged, attribute: string): Promise<void> {
    this.#values++;
    await this.#tell(`lost value: ${attribute} of ${plain(dn)} (entryUUID ${uuidText(id)})`);
  }

  async #tell(what: string): Promise<void> {
    process.stderr.write(`rowan: ${what}\n`);
    await this.#comment(what);
  }

  async #comment(text: string): Promise<void> {
    await this.#output.write(Buffer.from(`# ${text}\n\n`));
  }

  /** Says at the end of the LDIF that it is partial. */
  async end(): Promise<void> {
    if (this.any) await this.#comment(this.summary);
  }

  get any(): boolean {
    return this.#entries + this.#values > 0;
  }

  get summary(): string {
    const entries = counted(this.#entries, 'entry', 'entries');
    const values = this.#values > 0 ? ` and ${counted(this.#values, 'value')}` : '';
    return `this export is partial: ${entries}${values} could not be read`;
  }
}

/** On one line. */
function plain(dn: Buffer): string {
  return dn.toString().replace(/\p{Cc}/gu, (char) => `\\${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
