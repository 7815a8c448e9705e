import type { FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import { LdapError } from '../ldap/ldap-error.js';
import { type Partition, storeFailureOf } from '../partition/index.js';
import type { Actor } from '../partition/model/directory-types.js';
import {
  alsoRecord,
  beginDrop,
  type DropState,
  endDrop,
  noteRefusal,
  passUnchanged,
  RecordDone,
  readDrop,
  readRefusals,
} from '../partition/model/drop-rows.js';
import type { PasswordPolicy } from '../password/index.js';
import { applyChange } from '../records/apply.js';
import { ImportedPasswords, PasswordCounts } from '../records/passwords.js';
import type { Claims, Held } from './claims.js';
import { codeOf, DropError, isPassing, type Layout, openClaimed } from './layout.js';
import { type FileName, parseFileName } from './names.js';
import type { End, Results } from './result.js';
import { type Item, LdifSource, type RecordSource } from './source.js';
import { validate } from './validate.js';

/** How often a record may have been done by nobody where a plan says that somebody has done it. */
const MOST_STILL = 10;
const UNKNOWN =
  'its progress is not known in this directory: records of it may have been applied, and none was now; see which were, and drop the others';
/** Characters of a reason that are kept. */
const MAX_REASON = 500;

export interface FileSettings {
  /** Longer files are refused. */
  readonly maxBytes: number;
  /** Checks a whole file against the schema before its first record is applied. */
  readonly validateFirst: boolean;
  /** What stored passwords may cost. */
  readonly policy: PasswordPolicy;
}

/** What works on one file after another. */
export interface FileTools {
  readonly layout: Layout;
  readonly claims: Claims;
  readonly results: Results;
  readonly partition: Partition;
  readonly actor: Actor;
  readonly settings: FileSettings;
  /** Records of a `.csv` file. Throws `DropError` where none can be read. */
  readonly csvSource: (file: FileHandle) => Promise<RecordSource>;
  readonly log: Pick<Logger, 'error'>;
}

/** Works on one claimed file to its end. */
export class FileRun {
  readonly #tools: FileTools;
  readonly #name: FileName;
  readonly #passwords: ImportedPasswords;
  #held: Held;

  constructor(tools: FileTools, held: Held) {
    this.#tools = tools;
    this.#held = held;
    this.#name = parseFileName(held.claim.name);
    this.#passwords = new ImportedPasswords(tools.partition.schema, tools.settings.policy, true);
  }

  /** The claim as it is now. */
  get held(): Held {
    return this.#held;
  }

  /**
   * How the file ended; undefined: another has it, or has done it. Throws the signal's reason between two records, and
   * what may be otherwise later, such as what the store says: the file then stays as it is, and whoever takes it goes
   * on with it.
   */
  async run(signal: AbortSignal | undefined): Promise<End | undefined> {
    const { results, claims } = this.#tools;
    if (this.#held.taken) {
      const end = await results.goOn(this.#held);
      if (end) return end;
    }
    if (this.#isExpired()) return results.endWhole(this.#held, { result: 'expired' });
    let file: FileHandle | undefined;
    let source: RecordSource | undefined;
    try {
      file = await this.#opened();
      source = await this.#source(file);
      return await this.#apply(source, signal);
    } catch (error) {
      if (signal?.aborted || isLater(error)) throw error;
      if (!(await claims.isHeld(this.#held))) return undefined;
      return await this.#refuse(this.#refusedFor(error), source);
    } finally {
      await file?.close();
    }
  }

  #refusedFor(error: unknown): Refused {
    if (error instanceof Refused) return error;
    if (error instanceof DropError) return new Refused(error.message);
    if (error instanceof LdapError) return new Refused(`${error.result}: ${error.message}`.slice(0, MAX_REASON));
    const { name, token } = this.#held.claim;
    const code = codeOf(error);
    this.#tools.log.error({ name, delivery: token, code }, 'a dropped file cannot be worked on');
    return new Refused(`it cannot be read or worked on (${code}); see to that, and drop it again`);
  }

  /** Ends a file of which no more records will be applied. */
  async #refuse({ message: reason, errors }: Refused, source: RecordSource | undefined): Promise<End | undefined> {
    const { results, partition } = this.#tools;
    const { claim } = this.#held;
    if (!claim.begun) return results.endWhole(this.#held, { result: 'error', reason, errors });
    const state = await readDrop(partition.store, claim.token);
    if (!state) return this.#goOnUnknown();
    const left = `${reason}; what comes after its record ${state.done} was not applied`;
    try {
      return await results.end(this.#held, source, state, left);
    } catch (error) {
      if (isLater(error)) throw error;
      // What hinders the records may hinder what was refused from being read again.
      return results.end(this.#held, undefined, state, left);
    }
  }

  /** Goes on with a file that was begun and has no row: it is done, or its row is in another directory. */
  async #goOnUnknown(): Promise<End | undefined> {
    const { results, claims } = this.#tools;
    const end = await results.goOn(this.#held);
    if (end || !(await claims.isHeld(this.#held))) return end;
    return results.endWhole(this.#held, { result: 'error', reason: UNKNOWN });
  }

  #isExpired(): boolean {
    const { expiry } = this.#name;
    return !this.#held.claim.begun && expiry !== undefined && expiry <= Date.now();
  }

  async #opened(): Promise<FileHandle> {
    const { layout, settings, actor } = this.#tools;
    const { path, claim } = this.#held;
    await actor.access?.renew();
    if (claim.begun) return openClaimed(path, Infinity);
    if (this.#name.replyTo !== '') await layout.reply(this.#name.replyTo);
    return openClaimed(path, settings.maxBytes);
  }

  async #source(file: FileHandle): Promise<RecordSource> {
    const { csvSource, partition, settings } = this.#tools;
    const { begun } = this.#held.claim;
    const source = this.#name.isCsv ? await csvSource(file) : new LdifSource(file);
    if (begun || !settings.validateFirst) return source;
    const { count, errors } = await validate(partition, source);
    if (count > 0) throw new Refused(`records that the schema does not allow: ${count}; nothing was applied`, errors);
    return source;
  }

  async #apply(source: RecordSource, signal: AbortSignal | undefined): Promise<End | undefined> {
    const { partition, results } = this.#tools;
    if (!this.#held.claim.begun && !(await this.#begin())) return undefined;
    const { token } = this.#held.claim;
    for (let last = -1, still = 0; ; ) {
      const state = await readDrop(partition.store, token);
      // Where the row has gone the receipt is in place.
      if (!state) return this.#goOnUnknown();
      if (await this.#applyFrom(state, source, signal)) break;
      if (!(await this.#tools.claims.isHeld(this.#held))) return undefined;
      still = state.done === last ? still + 1 : 0;
      last = state.done;
      if (still === MOST_STILL)
        throw new Misnamed(
          `record ${last + 1} cannot be done; was ${this.#held.path} given another name? Give it back its own`,
        );
    }
    const state = await readDrop(partition.store, token);
    return state ? results.end(this.#held, source, state) : this.#goOnUnknown();
  }

  /** Makes the file's row. The name then says so: what follows begins when that is durable. */
  async #begin(): Promise<boolean> {
    const { claims, layout, partition } = this.#tools;
    const { token, name } = this.#held.claim;
    await beginDrop(partition.store, token, name, Date.now());
    const begun = await claims.begin(this.#held);
    if (!begun) {
      // Who took the file may have done it already: the row is too late then, and nobody's.
      if (!(await claims.isClaimed(token))) await endDrop(partition.store, token);
      return false;
    }
    this.#held = begun;
    await layout.sync('processing', 'target');
    return true;
  }

  /** Whether all is done; false where somebody else has done a record meanwhile. */
  async #applyFrom(
    { done, refused }: DropState,
    source: RecordSource,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    let number = done;
    try {
      for await (const item of source.items(done, refused > 0 ? await this.#refusedDns() : undefined)) {
        signal?.throwIfAborted();
        await this.#applyItem(item, number++);
      }
      return true;
    } catch (error) {
      if (error instanceof RecordDone) return false;
      throw error;
    }
  }

  async #refusedDns(): Promise<Set<string>> {
    const dns = new Set<string>();
    if (!this.#name.isCsv) return dns;
    for await (const { dn } of readRefusals(this.#tools.partition.store, this.#held.claim.token))
      if (dn !== undefined) dns.add(dn);
    return dns;
  }

  async #applyItem(item: Item, number: number): Promise<void> {
    const { partition, actor } = this.#tools;
    const { store } = partition;
    const { token, name } = this.#held.claim;
    try {
      const record = await item.change();
      if (!record) return await passUnchanged(store, token, name, number);
      const also = alsoRecord(store, token, name, number);
      await applyChange(partition, record, actor, this.#passwords, new PasswordCounts(), also);
    } catch (error) {
      if (!(error instanceof LdapError) || storeFailureOf(error) || error.result === 'busy') throw error;
      const reason = `${error.result}: ${error.message}`.slice(0, MAX_REASON);
      await noteRefusal(store, token, name, { number, line: item.line, reason, dn: item.dn });
    }
  }
}

/** No more of the file will be applied. */
class Refused extends Error {
  readonly errors: readonly { readonly line: number; readonly reason: string }[];

  constructor(message: string, errors: Refused['errors'] = []) {
    super(message);
    this.errors = errors;
  }
}

/** Somebody has given the file another name in `processing`, and can give it its own back. */
class Misnamed extends Error {}

/** Whether the file is to stay, and be tried again. */
function isLater(error: unknown): boolean {
  const isBusy = error instanceof LdapError && error.result === 'busy';
  return storeFailureOf(error) !== undefined || isBusy || isPassing(error) || error instanceof Misnamed;
}
