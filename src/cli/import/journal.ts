import { readFileSync, rmSync } from 'node:fs';
import { removeLeftovers, replaceFile } from '../atomic-file.js';
import type { Fingerprint } from './source.js';

export interface ImportProgress extends Fingerprint {
  /** Byte offset in the file. Every record before it was loaded, applied or refused. */
  readonly done: number;
  /** Line of the refused record that ended the import, right before `done`. Undefined: the import was interrupted. */
  readonly refusedLine?: number | undefined;
}

function isImportRecord(value: unknown): value is ImportProgress {
  if (typeof value !== 'object' || value === null) return false;
  const record = value as Record<string, unknown>;
  return Number.isSafeInteger(record.size) && typeof record.head === 'string' && Number.isSafeInteger(record.done);
}

/** Keeps the progress of one import in the file `path`. */
export class ImportJournal {
  readonly #path: string;
  readonly #fingerprint: Fingerprint;

  constructor(path: string, file: Fingerprint) {
    this.#path = path;
    this.#fingerprint = file;
    removeLeftovers(path);
  }

  /** Returns the progress of an unfinished import of the same file; undefined when there is none. */
  readProgress(): ImportProgress | undefined {
    let record: unknown;
    try {
      record = JSON.parse(readFileSync(this.#path, 'utf8'));
    } catch (error) {
      if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
    const { size, head } = this.#fingerprint;
    return isImportRecord(record) && record.size === size && record.head === head ? record : undefined;
  }

  write(done: number, refusedLine?: number): void {
    replaceFile(this.#path, JSON.stringify({ ...this.#fingerprint, done, refusedLine }));
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}
