import { closeSync, fchmodSync, fstatSync, openSync, readSync, type Stats, statSync, writeSync } from 'node:fs';
import { formatComment, formatRecord, type LdifApart } from '../../ldif/index.js';
import { UsageError } from '../exit.js';

/** What every file of rejects begins with. */
const BEGINNING = /^# line \d+: /;
const BEGINNING_BYTES = 32;

export interface Rejected {
  /** First line of the record in its file. */
  readonly line: number;
  /** The record as it stands there. */
  readonly text: Buffer;
  /** What of it is not in `text`. */
  readonly apart?: readonly LdifApart[];
}

/**
 * Throws where writing rejects to `path` would destroy what is not theirs: the input, whatever name it has there, or
 * another file. `input`: `-` is standard input.
 */
export function checkRejectsPath(path: string, input: string): void {
  const found = regularFile(path);
  if (!found) return;
  const read = input === '-' ? fstatSync(0) : regularFile(input);
  if (read && read.dev === found.dev && read.ino === found.ino)
    throw new UsageError(`${path} is the file to import; name another one for the refused records, with --rejects`);
  if (found.size === 0 || BEGINNING.test(beginningOf(path))) return;
  throw new UsageError(
    `${path} exists and has no refused records; move it away, or name another file for them, with --rejects`,
  );
}

function regularFile(path: string): Stats | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() ? stat : undefined;
}

function beginningOf(path: string): string {
  const fd = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(BEGINNING_BYTES);
    return bytes.toString('latin1', 0, readSync(fd, bytes));
  } finally {
    closeSync(fd);
  }
}

/**
 * The records that were refused, as LDIF that can be corrected and imported: each after a comment with its line and the
 * reason. The file is made at the first of them, for its owner alone, since it may hold passwords.
 */
export class RejectsFile {
  readonly path: string;
  readonly #append: boolean;
  #fd: number | undefined;
  count = 0;

  /** `append`: keeps what an interrupted import has written, the last record of which may lack its end. */
  constructor(path: string, append: boolean) {
    this.path = path;
    this.#append = append;
  }

  write(record: Rejected, reason: string): void {
    if (this.#fd === undefined) {
      this.#fd = openSync(this.path, this.#append ? 'a' : 'w', 0o600);
      fchmodSync(this.#fd, 0o600);
      if (fstatSync(this.#fd).size > 0) writeSync(this.#fd, '\n\n');
    }
    this.count++;
    const comment = formatComment(`line ${record.line}: ${reason.replaceAll(/[\r\n]+/g, ' ')}`);
    const end = record.text.at(-1) === 0x0a ? '\n' : '\n\n';
    writeSync(this.#fd, comment);
    for (const piece of formatRecord(record)) writeSync(this.#fd, piece);
    writeSync(this.#fd, end);
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}
