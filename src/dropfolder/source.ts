import type { FileHandle } from 'node:fs/promises';
import { LdapError } from '../ldap/ldap-error.js';
import { formatComment, formatRecord, LdifParser, type LdifRecord } from '../ldif/index.js';
import type { Refusal } from '../partition/model/drop-rows.js';
import type { ChangeRecord } from '../records/apply.js';

export interface SourceRecord {
  /** Line where the record begins, from 1. 0 when no line belongs to the record. */
  readonly line: number;
  /** DN of a record without a line. */
  readonly dn?: string | undefined;
  /** Returns the change to apply now, undefined for none. Throws `LdapError` when the record is invalid. */
  change(): ChangeRecord | undefined | Promise<ChangeRecord | undefined>;
}

/** The records of a file. The file can be read repeatedly. */
export interface RecordSource {
  /** Yields the records in order from number `done` (from 0). `refused`: refused records without a line, as DNs. */
  items(done: number, refused?: ReadonlySet<string>): AsyncGenerator<SourceRecord>;
  /** Yields the refused records as LDIF with comments. `refusals` are in order. */
  rejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer>;
}

const CHUNK = 64 * 1024;

/** Reads the file from its start. Each chunk has its own buffer, which the caller may keep. */
export async function* readChunks(file: FileHandle): AsyncGenerator<Buffer> {
  for (let at = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(CHUNK), 0, CHUNK, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

export class LdifSource implements RecordSource {
  readonly #file: FileHandle;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async *records(): AsyncGenerator<LdifRecord> {
    const parser = new LdifParser();
    for await (const chunk of readChunks(this.#file)) yield* parser.push(chunk);
    yield* parser.end();
  }

  async *items(done: number): AsyncGenerator<SourceRecord> {
    let number = 0;
    for await (const record of this.records())
      if (number++ >= done) yield { line: record.line, change: () => toChange(record) };
  }

  async *rejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer> {
    let number = 0;
    let at = 0;
    for await (const record of this.records()) {
      if (refusals[at]?.number !== number++) continue;
      yield refusalComment(refusals[at++]!);
      yield* formatRecord(record);
      yield Buffer.from(record.text.at(-1) === 0x0a ? '\n' : '\n\n');
      if (at === refusals.length) return;
    }
  }
}

/** Converts an LDIF record. An entry without changetype becomes an add. */
export function toChange(record: LdifRecord): ChangeRecord {
  if (record.kind === 'error') throw new LdapError('protocolError', record.reason);
  return record.kind === 'content' ? { ...record, kind: 'add', controls: [] } : record;
}

export function refusalComment({ line, reason }: Refusal): Buffer {
  return formatComment(`${line > 0 ? `line ${line}: ` : ''}${reason.replaceAll(/[\r\n]+/g, ' ')}`);
}
