import { closeSync, fchmodSync, fstatSync, openSync, readSync, rmSync, type Stats, statSync, writeSync } from 'node:fs';
import type { ResultName } from '../../ldap/ldap-error.js';
import { formatComment, formatRecord, type LdifDetachedValue } from '../../ldif/index.js';
import { formatNumber, UsageError } from '../exit.js';

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

/** Kinds that are counted separately. Further kinds are merged. */
const MAX_KINDS = 100;
const MAX_TEXT = 300;

const DEFAULT_REMEDY = 'correct these records';
/** Remedies for results whose message has none. */
const REMEDIES: Partial<Record<ResultName, string>> = {
  entryAlreadyExists: 'leave what is there, or delete it first',
  noSuchObject: 'import what is above it first',
  noSuchAttribute: 'the change is made already, or was meant for another entry',
};

interface RefusalKind {
  readonly reason: string;
  readonly line: number;
  count: number;
}

/** Counts refusals by kind. Numbers in reasons are ignored; beyond `MAX_KINDS` kinds, quoted texts too. */
export class RefusalCounts {
  readonly #kinds = new Map<string, RefusalKind>();

  add(line: number, reason: string): void {
    const text = reason.replace(/^line \d+: /, '');
    const exactKind = text.replaceAll(/\d+/g, '0');
    const broadKind = exactKind.replaceAll(/'[^']*'|"[^"]*"/g, "''");
    const { size } = this.#kinds;
    const key = size < MAX_KINDS ? exactKind : size < 2 * MAX_KINDS ? `like ${broadKind}` : '';
    const kind = this.#kinds.get(exactKind) ?? this.#kinds.get(`like ${broadKind}`) ?? this.#kinds.get(key);
    if (kind) kind.count++;
    else this.#kinds.set(key, { reason: key === '' ? 'other reasons' : text.slice(0, MAX_TEXT), line, count: 1 });
  }

  /** Returns a line of text for each kind, the most frequent first. */
  format(): string[] {
    const kinds = [...this.#kinds.values()].sort((a, b) => b.count - a.count || a.line - b.line);
    return kinds.map(({ reason, line, count }) => {
      const result = /^(\w+): /.exec(reason)?.[1] as ResultName | undefined;
      const remedy = reason.includes('; ') ? '' : `; ${(result && REMEDIES[result]) ?? DEFAULT_REMEDY}`;
      return `${formatNumber(count)} × ${reason}, the first at line ${line}${remedy}`;
    });
  }
}
