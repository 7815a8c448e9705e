import type { FileHandle } from 'node:fs/promises';
import { LdapError } from '../ldap/ldap-error.js';
import { formatComment, formatRecord, LdifParser, type LdifRecord } from '../ldif/index.js';
import type { Refusal } from '../partition/model/drop-rows.js';
import type { ChangeRecord } from '../records/apply.js';

export interface SourceRecord {
  /** Line where the record begins, from 1; 0 if the record comes from no line of the file. */
  readonly line: number;
  /** DN of a record that comes from no line. */
  readonly dn?: string | undefined;
  /** Returns the change to apply now; undefined if nothing changes. Throws `LdapError` when the record is invalid. */
  makeChange(): ChangeRecord | undefined | Promise<ChangeRecord | undefined>;
}

/** The records of a file. The file can be read repeatedly. */
export interface RecordSource {
  /** What makes the records slow to apply, and what helps. */
  readonly warnings?: readonly string[];
  /** See `LdifParser.leftOutCount`: of the whole file, once all records have been read. */
  readonly leftOutCount?: number;
  /** Yields the records from number `doneCount` on (from 0). `refusedDns`: DNs of refused records without a line. */
  readRecords(doneCount: number, refusedDns?: ReadonlySet<string>): AsyncGenerator<SourceRecord>;
  /** Yields the refused records as LDIF with the reasons as comments. `refusals` are in the order of the records. */
  formatRejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer>;
}

const CHUNK = 64 * 1024;

/** Reads the file from its start. Each chunk has its own buffer, which the caller may keep. */
export async function* readChunks(file: FileHandle): AsyncGenerator<Buffer> {
  for (let offset = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(CHUNK), 0, CHUNK, offset);
    if (bytesRead === 0) return;
    offset += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

export class LdifSource implements RecordSource {
  readonly #file: FileHandle;
  leftOutCount = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async *records(): AsyncGenerator<LdifRecord> {
    const parser = new LdifParser();
    for await (const chunk of readChunks(this.#file)) yield* parser.push(chunk);
    yield* parser.end();
    this.leftOutCount = parser.leftOutCount;
  }

  async *readRecords(doneCount: number): AsyncGenerator<SourceRecord> {
    let recordNumber = 0;
    for await (const record of this.records())
      if (recordNumber++ >= doneCount) yield { line: record.line, makeChange: () => toChange(record) };
  }

  async *formatRejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer> {
    let recordNumber = 0;
    let refusalIndex = 0;
    for await (const record of this.records()) {
      if (refusals[refusalIndex]?.number !== recordNumber++) continue;
      yield formatRefusal(refusals[refusalIndex++]!);
      yield* formatRecord(record);
      yield Buffer.from(record.text.at(-1) === 0x0a ? '\n' : '\n\n');
      if (refusalIndex === refusals.length) return;
    }
  }
}

/** Converts an LDIF record. An entry without `changetype` becomes an add. */
export function toChange(record: LdifRecord): ChangeRecord {
  if (record.kind === 'error') throw new LdapError('protocolError', record.reason);
  return record.kind === 'content' ? { ...record, kind: 'add', controls: [] } : record;
}

export function formatRefusal({ line, reason }: Refusal): Buffer {
  return formatComment(`${line > 0 ? `line ${line}: ` : ''}${reason.replaceAll(/[\r\n]+/g, ' ')}`);
}
