import { watch } from 'node:fs';
import { lstat, rename } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Partition, storeFailureOf } from '../partition/index.js';
import type { Actor } from '../partition/model/directory-types.js';
import type { Dn } from '../schema/schema-types.js';
import { Claims, type Held } from './claims.js';
import { readMapping } from './csv-mapping.js';
import { CsvSource } from './csv-source.js';
import { FileRun, type FileSettings, type FileTools } from './file-run.js';
import { type AccountSettings, actorFor } from './identity.js';
import { DropError, hasCode, Layout, printable } from './layout.js';
import { MAX_NAME, nameFault, newToken, parseFileName } from './names.js';
import { type End, Results } from './result.js';

export interface DropFolderSettings extends FileSettings {
  /** By whose rights records are applied; undefined: the administrator, as `rowan import`. */
  readonly as: Dn | undefined;
  readonly accounts: AccountSettings;
  /** Seconds after which the files of a process that has died are taken over. */
  readonly lease: number;
  /** Seconds between two looks at the folder, where nothing tells that a file has come. */
  readonly poll: number;
  /** File that says how rows of `.csv` files become entries; undefined: such files are refused. */
  readonly mapping?: string | undefined;
}

/** How many files ended how. */
export type PassResult = Readonly<Record<End, number>> & {
  /** Files that could not be worked on now: they stay in `processing`. */
  readonly failed: number;
};

/** Makes records of CSV files by a mapping file, if there is one; it is read anew for each of them. */
export function csvSourceBy(
  mapping: string | undefined,
  partition: Partition,
  access?: Actor['access'],
): FileTools['csvSource'] {
  return async (file) => {
    if (mapping === undefined) throw new DropError('no mapping is given for CSV files; give one with --mapping');
    return CsvSource.open(file, partition, readMapping(mapping, partition.schema), access);
  };
}

/** Files that are taken before `target` is looked at again: one of a higher priority may have come. */
const AT_A_TIME = 50;

/**
 * A folder into which files are dropped (docs/dropfolder.md). Several processes may work on one; each makes one
 * `DropFolder`, and keeps it: it knows how long the others have said nothing.
 */
export class DropFolder {
  readonly #layout: Layout;
  readonly #claims: Claims;
  readonly #settings: DropFolderSettings;
  readonly #log: Pick<Logger, 'info' | 'warn' | 'error'>;
  readonly #tools: FileTools;

  private constructor(tools: FileTools, settings: DropFolderSettings, log: Pick<Logger, 'info' | 'warn' | 'error'>) {
    this.#layout = tools.layout;
    this.#claims = tools.claims;
    this.#settings = settings;
    this.#log = log;
    this.#tools = tools;
  }

  /** Makes the folders where they are not there. Throws `DropError` where they, or the identity, cannot be used. */
  static async open(
    folder: string,
    partition: Partition,
    settings: DropFolderSettings,
    log: Pick<Logger, 'info' | 'warn' | 'error'>,
  ): Promise<DropFolder> {
    const layout = await Layout.open(folder);
    const actor = await actorFor(partition, settings.as, settings.accounts, log);
    const claims = new Claims(layout, settings.lease * 1000);
    const results = new Results(layout, claims, partition.store, log);
    const csvSource = csvSourceBy(settings.mapping, partition, actor.access);
    return new DropFolder({ layout, claims, results, partition, actor, settings, csvSource, log }, settings, log);
  }

  /**
   * Works on what is there: files of this process and of dead ones in `processing`, then `target`, by priority and age.
   * Resolves when nothing is left to take. An aborted signal ends it after the record in hand, and what it has goes to
   * whoever wants it. Throws what the store says when it fails; other failures are logged and counted.
   */
  async pass(signal?: AbortSignal): Promise<PassResult> {
    await this.#claims.start();
    const result = { processed: 0, error: 0, expired: 0, failed: 0 };
    const { free } = await this.#claims.others();
    for (const text of free) {
      if (signal?.aborted) return result;
      await this.#work(await this.#claims.take(text), result, signal);
    }
    const stuck = new Set<string>();
    for (;;) {
      const names = (await this.#targets(result)).filter((name) => !stuck.has(name));
      if (names.length === 0) return result;
      for (const name of names.slice(0, AT_A_TIME)) {
        if (signal?.aborted) return result;
        const held = await this.#claims.claim(name).catch((error: unknown) => {
          stuck.add(name);
          this.#tellFailed(name, error, result);
          return undefined;
        });
        await this.#work(held, result, signal);
      }
    }
  }

  /**
   * Passes until nothing is left but what living processes work on: files of a process that has died are waited for.
   */
  async settle(signal?: AbortSignal): Promise<PassResult> {
    const sum = { processed: 0, error: 0, expired: 0, failed: 0 };
    for (;;) {
      const result = await this.pass(signal);
      for (const key of ['processed', 'error', 'expired'] as const) sum[key] += result[key];
      sum.failed = result.failed;
      const { held, free, alive } = await this.#claims.others();
      const isSettled = free.length === 0 ? held === 0 || alive : result.failed > 0;
      if (signal?.aborted || isSettled) return sum;
      await sleep((this.#settings.lease * 1000) / 10, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Passes until the signal is aborted. A store that fails is logged, and asked again. */
  async run(signal: AbortSignal): Promise<void> {
    let wake = (): void => undefined;
    this.#watch(signal, () => wake());
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      try {
        await this.pass(signal);
      } catch (error) {
        this.#log.error({ err: error }, 'the drop folder cannot be worked on now; trying again');
      }
      if (signal.aborted) break;
      const ended = new AbortController();
      const timeout = sleep(this.#settings.poll * 1000, undefined, { signal: AbortSignal.any([signal, ended.signal]) });
      await Promise.race([woken, timeout]).catch(() => undefined);
      ended.abort();
    }
  }

  /** Where the system does not tell, the folder is looked at from time to time all the same. */
  #watch(signal: AbortSignal, wake: () => void): void {
    try {
      const watcher = watch(this.#layout.path('target'), { signal }, wake);
      watcher.on('error', () => watcher.close());
    } catch (error) {
      this.#log.warn({ reason: String(error) }, 'the system does not tell of new files; they are looked for');
    }
  }

  /** Others need not wait for this process any more. */
  close(): Promise<void> {
    return this.#claims.close();
  }

  async #work(held: Held | undefined, result: Record<keyof PassResult, number>, signal?: AbortSignal): Promise<void> {
    if (!held) return;
    const run = new FileRun(this.#tools, held);
    const { name } = held.claim;
    try {
      const end = await run.run(signal);
      if (!end) return;
      result[end]++;
      this.#log[end === 'processed' ? 'info' : 'warn'](
        { name, delivery: held.claim.token, result: end },
        'a dropped file is done',
      );
    } catch (error) {
      // Another may be able to, or this process later.
      await this.#claims.release(run.held);
      if (signal?.aborted) return;
      if (storeFailureOf(error)) throw error;
      this.#tellFailed(name, error, result);
    }
  }

  /** It is tried again in the next pass. */
  #tellFailed(name: string, error: unknown, result: Record<keyof PassResult, number>): void {
    result.failed++;
    const isElsewhere = hasCode(error, 'EXDEV', 'EBUSY');
    const reason = isElsewhere
      ? 'it is on another file system and cannot be moved at once; move a copy to target'
      : error instanceof Error
        ? error.message
        : String(error);
    this.#log.error({ name, reason }, 'a dropped file cannot be worked on now; it stays where it is');
  }

  /** Names in `target`, those that come first first. A name that cannot be one goes to `error` at once. */
  async #targets(result: Record<keyof PassResult, number>): Promise<string[]> {
    const found: { name: string; priority: number; age: number }[] = [];
    for (const bytes of await this.#layout.names('target')) {
      const fault = nameFault(bytes);
      if (fault !== undefined) {
        await this.#refuseName(bytes, fault, result);
        continue;
      }
      const name = bytes.toString();
      const age = await lstat(this.#layout.path('target', name)).catch(() => undefined);
      if (age) found.push({ name, priority: parseFileName(name).priority, age: age.mtimeMs });
    }
    found.sort((a, b) => b.priority - a.priority || a.age - b.age || (a.name < b.name ? -1 : 1));
    return found.map(({ name }) => name);
  }

  async #refuseName(bytes: Buffer, reason: string, result: Record<keyof PassResult, number>): Promise<void> {
    const name = `${newToken().slice(0, 8)}~${printable(bytes.toString()).slice(0, MAX_NAME / 4)}`;
    try {
      await rename(this.#layout.bytes('target', bytes), this.#layout.path('error', name));
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return;
      throw error;
    }
    await this.#tools.results.refuseName(name, reason);
    result.error++;
    this.#log.warn({ name, reason }, 'a dropped file is refused');
  }
}
