import { pathToFileURL } from 'node:url';
import type { Logger } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';
import {
  BreachedListFault,
  isBreached,
  JudgingFault,
  judge,
  requireBreachedList,
  type Source,
} from '../../password/index.js';
import type { Config } from '../settings/index.js';
import type { AccountPolicy } from './account-policy.js';

interface PasswordEntry {
  readonly names: readonly string[];
  readonly dn: string;
}

const NO_SOURCE: Source = { network: '', identity: '' };

/** Checks of new passwords against the list of breached passwords, the minimum score and the operator's module. */
export class Quality {
  /** Path of the list of breached passwords. */
  readonly #breachedListPath: string | undefined;
  /** URL of the operator's module for checks. */
  readonly #checkUrl: string | undefined;
  readonly #log: Pick<Logger, 'error'>;

  constructor({ passwords }: Config, log: Pick<Logger, 'error'>) {
    this.#breachedListPath = passwords.breached;
    this.#checkUrl = passwords.check === undefined ? undefined : pathToFileURL(passwords.check).href;
    this.#log = log;
  }

  /** Throws when the list or the module that the settings name cannot be used. */
  async requireUsable(): Promise<void> {
    try {
      if (this.#breachedListPath !== undefined) await requireBreachedList(this.#breachedListPath);
      if (this.#checkUrl !== undefined)
        await judge.refusalReason({ clear: '', names: [], dn: '', minScore: 0, check: this.#checkUrl }, NO_SOURCE);
    } catch (error) {
      if (error instanceof BreachedListFault) throw new LdapError('other', `passwords.breached: ${error.message}`);
      if (error instanceof JudgingFault) throw new LdapError('other', `passwords.check: ${error.message}`);
      throw error;
    }
  }

  /** Returns why the password is refused; undefined: accepted. Throws `unavailable` when it cannot be checked. */
  async refusalReason(
    { checkQuality, minScore }: AccountPolicy,
    clear: Buffer,
    { names, dn }: PasswordEntry,
    source: Source,
  ): Promise<string | undefined> {
    const isChecked = checkQuality > 0;
    const check = isChecked ? this.#checkUrl : undefined;
    try {
      if (isChecked && this.#breachedListPath !== undefined && (await isBreached(this.#breachedListPath, clear)))
        return 'the password is known from breaches of others; choose one that you use nowhere else';
      if (minScore === 0 && check === undefined) return undefined;
      return await judge.refusalReason({ clear: clear.toString(), names, dn, minScore, check }, source);
    } catch (error) {
      if (!(error instanceof BreachedListFault || error instanceof JudgingFault)) throw error;
      this.#log.error({ reason: error.message }, 'new passwords cannot be judged, and are refused');
      throw new LdapError('unavailable', 'the password cannot be judged now; the log of the server says why', {
        cause: error,
      });
    }
  }
}
