import { closeSync, fchmodSync, fstatSync, openSync, readSync, rmSync, type Stats, statSync, writeSync } from 'node:fs';
import { formatComment, formatRecord, type LdifDetachedValue } from '../../ldif/index.js';
import { UsageError } from '../exit.js';

const FIRST_LINE = /^# line \d+: /;
const FIRST_LINE_BYTES = 32;

export interface RejectedRecord {
  /** First line of the record in the input. */
  readonly line: number;
  /** The unchanged text of the record. */
  readonly text: Buffer;
  /** Values that `text` does not contain. */
  readonly detachedValues?: readonly LdifDetachedValue[];
}

/** Returns the reason behind the first line of its record. A faulty line further down follows in parentheses. */
export function locateReason(line: number, reason: string): string {
  const [, fault, text = ''] = /^line (\d+): (.*)$/s.exec(reason) ?? [];
  if (fault === undefined) return `line ${line}: ${reason}`;
  return `line ${line}: ${text}${Number(fault) === line ? '' : ` (in line ${fault})`}`;
}

/** Throws if `path` is the input (`-`: standard input), under any name, or a file with other content than rejects. */
export function checkRejectsPath(path: string, input: string): void {
  const rejectsStat = statRegularFile(path);
  if (!rejectsStat) return;
  const inputStat = input === '-' ? fstatSync(0) : statRegularFile(input);
  if (inputStat && inputStat.dev === rejectsStat.dev && inputStat.ino === rejectsStat.ino)
    throw new UsageError(`${path} is the file to import; name another one for the refused records, with --rejects`);
  if (rejectsStat.size === 0 || holdsRejects(path)) return;
  throw new UsageError(
    `${path} exists and has no refused records; move it away, or name another file for them, with --rejects`,
  );
}

function statRegularFile(path: string): Stats | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() ? stat : undefined;
}

function holdsRejects(path: string): boolean {
  const fd = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(FIRST_LINE_BYTES);
    return FIRST_LINE.test(bytes.toString('latin1', 0, readSync(fd, bytes)));
  } finally {
    closeSync(fd);
  }
}

/**
 * Writes refused records as LDIF to be corrected and imported again. A comment before each has its line and the reason.
 * The file is created with the first record, readable by its owner only, since it may contain passwords.
 */
export class RejectsFile {
  readonly path: string;
  readonly #append: boolean;
  #fd: number | undefined;
  recordCount = 0;

  /** `append`: keeps the records of an interrupted import, the last of which may be truncated. */
  constructor(path: string, append: boolean) {
    this.path = path;
    this.#append = append;
  }

  write(record: RejectedRecord, reason: string): void {
    if (this.#fd === undefined) {
      this.#fd = openSync(this.path, this.#append ? 'a' : 'w', 0o600);
      fchmodSync(this.#fd, 0o600);
      if (fstatSync(this.#fd).size > 0) writeSync(this.#fd, '\n\n');
    }
    this.recordCount++;
    const comment = formatComment(locateReason(record.line, reason.replaceAll(/[\r\n]+/g, ' ')));
    const separator = record.text.at(-1) === 0x0a ? '\n' : '\n\n';
    writeSync(this.#fd, comment);
    for (const chunk of formatRecord(record)) writeSync(this.#fd, chunk);
    writeSync(this.#fd, separator);
  }

  /** Removes the file that an earlier import has left, after one without refusals. */
  removeEarlier(): void {
    if (!this.#append && statRegularFile(this.path) && holdsRejects(this.path)) rmSync(this.path);
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }
}
