import type { FileHandle } from 'node:fs/promises';
import { LdapError } from '../ldap/ldap-error.js';
import { type Partition, storeFailureOf } from '../partition/index.js';
import type { Actor } from '../partition/model/directory.js';
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
import { DropError, type Layout, openClaimed } from './layout.js';
import { type FileName, parseFileName } from './names.js';
import type { End, Results } from './result.js';
import { type Item, LdifSource, type RecordSource } from './source.js';
import { validate } from './validate.js';

/** How often a record may have been done by nobody where a plan says that somebody has done it. */
const MOST_STILL = 10;
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
    this.#passwords = new ImportedPasswords(tools.partition.schema, tools.settings.policy);
  }

  /** The claim as it is now. */
  get held(): Held {
    return this.#held;
  }

  /**
   * How the file ended; undefined: another has it, or has done it. Throws the signal's reason between two records, and
   * what the store or the system says: the file then stays as it is, and whoever takes it goes on with it.
   */
  async run(signal: AbortSignal | undefined): Promise<End | undefined> {
    const { results, claims } = this.#tools;
    if (this.#held.taken) {
      const end = await results.goOn(this.#held);
      if (end) return end;
    }
    if (this.#isExpired()) return results.endWhole(this.#held, { result: 'expired' });
    let file: FileHandle | undefined;
    try {
      file = await this.#opened();
      if (!file) return undefined;
      return await this.#apply(await this.#source(file), signal);
    } catch (error) {
      if (!(await claims.isHeld(this.#held))) return undefined;
      if (!(error instanceof Refused)) throw error;
      const { message: reason, errors } = error;
      return await results.endWhole(this.#held, { result: 'error', reason, errors });
    } finally {
      await file?.close();
    }
  }

  #isExpired(): boolean {
    const { expiry } = this.#name;
    return !this.#held.claim.begun && expiry !== undefined && expiry <= Date.now();
  }

  /** Undefined where another has the claim. */
  async #opened(): Promise<FileHandle | undefined> {
    const { layout, settings } = this.#tools;
    const { path, claim } = this.#held;
    if (claim.begun) return openClaimed(path, Infinity);
    return refusing(async () => {
      if (this.#name.replyTo !== '') await layout.reply(this.#name.replyTo);
      return openClaimed(path, settings.maxBytes);
    });
  }

  async #source(file: FileHandle): Promise<RecordSource> {
    const { csvSource, partition, settings } = this.#tools;
    const { begun } = this.#held.claim;
    const made = () => (this.#name.isCsv ? csvSource(file) : Promise.resolve(new LdifSource(file)));
    const source = begun ? await made() : await refusing(made);
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
      if (!state) return results.goOn(this.#held);
      if (await this.#applyFrom(state, source, signal)) break;
      if (!(await this.#tools.claims.isHeld(this.#held))) return undefined;
      still = state.done === last ? still + 1 : 0;
      last = state.done;
      if (still === MOST_STILL)
        throw new Error(
          `record ${last + 1} cannot be done; was ${this.#held.path} given another name? Give it back its own`,
        );
    }
    const state = await readDrop(partition.store, token);
    return state ? results.end(this.#held, source, state) : results.goOn(this.#held);
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

/** Nothing of the file was applied, and nothing will be. */
class Refused extends Error {
  readonly errors: readonly { readonly line: number; readonly reason: string }[];

  constructor(message: string, errors: Refused['errors'] = []) {
    super(message);
    this.errors = errors;
  }
}

async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DropError) throw new Refused(error.message);
    throw error;
  }
}
