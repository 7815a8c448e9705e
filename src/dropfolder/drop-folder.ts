import { watch } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Partition, storeFailureOf } from '../partition/index.js';
import { type RecordSettings, recordContext } from './apply-record.js';
import { type ClaimedFile, Claims } from './claims.js';
import { type FileContext, FileRun } from './file-run.js';
import { hasCode, ignoreMissing, Layout, maskControls, renameIfPresent } from './layout.js';
import { MAX_NAME, nameFault, newToken, parseFileName } from './names.js';
import { FileFinisher, type FileResult } from './result.js';

export interface DropFolderSettings extends RecordSettings {
  /** If a process writes no heartbeat for this number of seconds, other processes take its files over. */
  readonly lease: number;
  /** Seconds between two scans of the folder when no file system event arrives. */
  readonly poll: number;
}

/** Number of files by result. `failed`: files that could not be finished now, and stay in `target` or `processing`. */
export type PassResult = Record<FileResult | 'failed', number>;

export type DropFolderLog = Pick<Logger, 'info' | 'warn' | 'error'>;

/** After this number of files `target` is scanned again, in case a file of higher priority has arrived. */
const FILES_PER_SCAN = 50;

/**
 * Processes the files that are dropped into a folder (docs/dropfolder.md). Several processes may work on one folder.
 * Each keeps one `DropFolder` for its lifetime, since the object remembers when the heartbeats of other processes last
 * changed.
 */
export class DropFolder {
  readonly #settings: DropFolderSettings;
  readonly #log: DropFolderLog;
  readonly #context: FileContext;

  private constructor(context: FileContext, settings: DropFolderSettings, log: DropFolderLog) {
    this.#settings = settings;
    this.#log = log;
    this.#context = context;
  }

  /** Creates missing folders. Throws `DropError` when the folder or the identity cannot be used. */
  static async open(
    folder: string,
    partition: Partition,
    settings: DropFolderSettings,
    log: DropFolderLog,
  ): Promise<DropFolder> {
    const layout = await Layout.open(folder);
    const claims = new Claims(layout, settings.lease * 1000);
    const finisher = new FileFinisher(layout, claims, partition.store, log);
    const context = await recordContext(partition, settings, log);
    return new DropFolder({ ...context, layout, claims, finisher, log }, settings, log);
  }

  /**
   * Processes all available files: claims in `processing` of this process and of dead ones, then files in `target`, by
   * priority and age. Resolves when there is no file left to take. An aborted signal ends the pass after the current
   * record and releases its file. Throws store failures; other failures are logged and counted.
   */
  async runPass(signal?: AbortSignal): Promise<PassResult> {
    await this.#context.claims.start();
    const result = { processed: 0, error: 0, expired: 0, failed: 0 };
    const { availableNames } = await this.#context.claims.survey();
    for (const claimName of availableNames) {
      if (signal?.aborted) return result;
      await this.#processFile(await this.#context.claims.takeOver(claimName), result, signal);
    }
    const stuckNames = new Set<string>();
    for (;;) {
      const fileNames = (await this.#listTarget(result)).filter((name) => !stuckNames.has(name));
      if (fileNames.length === 0) return result;
      for (const name of fileNames.slice(0, FILES_PER_SCAN)) {
        if (signal?.aborted) return result;
        const file = await this.#context.claims.claim(name).catch((error: unknown) => {
          stuckNames.add(name);
          this.#reportFailure(name, error, result);
          return undefined;
        });
        await this.#processFile(file, result, signal);
      }
    }
  }

  /** Repeats passes until only claims of living processes are left. Waits a lease for processes that may be dead. */
  async settle(signal?: AbortSignal): Promise<PassResult> {
    const sum = { processed: 0, error: 0, expired: 0, failed: 0 };
    for (;;) {
      const result = await this.runPass(signal);
      for (const key of ['processed', 'error', 'expired'] as const) sum[key] += result[key];
      sum.failed = result.failed;
      const { heldCount, availableNames, areAllAlive } = await this.#context.claims.survey();
      const isSettled = availableNames.length === 0 ? heldCount === 0 || areAllAlive : result.failed > 0;
      if (signal?.aborted || isSettled) return sum;
      // The sleep rejects when `signal` is aborted, which the next pass heeds.
      await sleep((this.#settings.lease * 1000) / 10, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Repeats passes until the signal is aborted. Failures are logged, and the next pass tries again. */
  async run(signal: AbortSignal): Promise<void> {
    let wakeUp = (): void => undefined;
    this.#watchTarget(signal, () => wakeUp());
    while (!signal.aborted) {
      const wakeUpCall = new Promise<void>((resolve) => {
        wakeUp = resolve;
      });
      try {
        await this.runPass(signal);
      } catch (error) {
        this.#log.error({ err: error }, 'the drop folder cannot be worked on now; trying again');
      }
      if (signal.aborted) break;
      const timer = new AbortController();
      const timeout = sleep(this.#settings.poll * 1000, undefined, { signal: AbortSignal.any([signal, timer.signal]) });
      // The wait rejects when `signal` is aborted, which ends the loop.
      await Promise.race([wakeUpCall, timeout]).catch(() => undefined);
      timer.abort();
    }
  }

  /** Calls `onChange` on file system events. If the system reports none, polling still finds the files. */
  #watchTarget(signal: AbortSignal, onChange: () => void): void {
    try {
      const watcher = watch(this.#context.layout.path('target'), { signal }, onChange);
      watcher.on('error', () => watcher.close());
    } catch (error) {
      this.#log.warn({ reason: String(error) }, 'the system does not report new files; the folder is polled');
    }
  }

  /** Stops and removes the heartbeat, so that other processes may take over this one's claims at once. */
  close(): Promise<void> {
    return this.#context.claims.close();
  }

  async #processFile(file: ClaimedFile | undefined, result: PassResult, signal?: AbortSignal): Promise<void> {
    if (!file) return;
    const run = new FileRun(this.#context, file);
    const { name } = file.claim;
    try {
      const fileResult = await run.run(signal);
      if (!fileResult) return;
      result[fileResult]++;
      this.#log[fileResult === 'processed' ? 'info' : 'warn'](
        { name, delivery: file.claim.token, result: fileResult },
        'a dropped file is done',
      );
    } catch (error) {
      // Release the claim: another process may succeed with the file, or this one later.
      await this.#context.claims.release(run.claimedFile);
      if (signal?.aborted) return;
      if (storeFailureOf(error)) throw error;
      this.#reportFailure(name, error, result);
    }
  }

  /** Counts and logs a failure. The next pass tries the file again. */
  #reportFailure(name: string, error: unknown, result: PassResult): void {
    result.failed++;
    const isOnOtherDisk = hasCode(error, 'EXDEV', 'EBUSY');
    const reason = isOnOtherDisk
      ? 'it is on another file system and cannot be moved at once; move a copy to target'
      : error instanceof Error
        ? error.message
        : String(error);
    this.#log.error({ name, reason }, 'a dropped file cannot be worked on now; it stays where it is');
  }

  /** Returns the names in `target` in order of processing. Files with unacceptable names are moved to `error`. */
  async #listTarget(result: PassResult): Promise<string[]> {
    const names: string[] = [];
    for (const { nameBytes, fault } of await listTarget(this.#context.layout)) {
      if (fault === undefined) names.push(nameBytes.toString());
      else await this.#refuseName(nameBytes, fault, result);
    }
    return names;
  }

  async #refuseName(nameBytes: Buffer, reason: string, result: PassResult): Promise<void> {
    const name = `${newToken().slice(0, 8)}~${maskControls(nameBytes.toString()).slice(0, MAX_NAME / 4)}`;
    const { layout, finisher } = this.#context;
    if (!(await renameIfPresent(layout.bytePath('target', nameBytes), layout.path('error', name)))) return;
    await finisher.writeNameReceipt(name, reason);
    result.error++;
    this.#log.warn({ name, reason }, 'a dropped file is refused');
  }
}

export interface TargetFile {
  readonly nameBytes: Buffer;
  /** Why the name is unacceptable. */
  readonly fault: string | undefined;
}

/** Returns the files in `target` in order of processing: by priority, then by age. */
export async function listTarget(layout: Layout): Promise<TargetFile[]> {
  const files: (TargetFile & { readonly priority: number; readonly mtime: number })[] = [];
  for (const nameBytes of await layout.listNames('target')) {
    const fault = nameFault(nameBytes);
    const stats = await lstat(layout.bytePath('target', nameBytes)).catch(ignoreMissing);
    const priority = fault === undefined ? parseFileName(nameBytes.toString()).priority : Infinity;
    if (stats) files.push({ nameBytes, fault, priority, mtime: stats.mtimeMs });
  }
  const compare = (a: (typeof files)[number], b: (typeof files)[number]) =>
    (b.priority === a.priority ? 0 : b.priority - a.priority) ||
    a.mtime - b.mtime ||
    Buffer.compare(a.nameBytes, b.nameBytes);
  return files.sort(compare);
}
