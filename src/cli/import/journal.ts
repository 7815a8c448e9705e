import { readFileSync, rmSync } from 'node:fs';
import { removeLeftovers, replaceFile } from '../whole-file.js';
import type { Fingerprint } from './source.js';

/** How far an import came that has not ended: kept until it has. */
export interface ImportRecord extends Fingerprint {
  /** Byte of the file up to which everything is done: entries there or refused, changes applied or refused. */
  readonly done: number;
}

function isImportRecord(value: unknown): value is ImportRecord {
  if (typeof value !== 'object' || value === null) return false;
  const record = value as Record<string, unknown>;
  return Number.isSafeInteger(record.size) && typeof record.head === 'string' && Number.isSafeInteger(record.done);
}

/** Keeps the record of one import in the file `path`. */
export class ImportJournal {
  readonly #path: string;
  readonly #file: Fingerprint;

  constructor(path: string, file: Fingerprint) {
    this.#path = path;
    this.#file = file;
    removeLeftovers(path);
  }

  /** The record of an unfinished import of this file; undefined when there is none, or one of another file. */
  read(): ImportRecord | undefined {
    let record: unknown;
    try {
      record = JSON.parse(readFileSync(this.#path, 'utf8'));
    } catch (error) {
      if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
    const { size, head } = this.#file;
    return isImportRecord(record) && record.size === size && record.head === head ? record : undefined;
  }

  write(done: number): void {
    replaceFile(this.#path, JSON.stringify({ ...this.#file, done }));
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}
