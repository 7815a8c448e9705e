import type { FileHandle } from 'node:fs/promises';
import { LdapError } from '../ldap/ldap-error.js';
import { formatComment, formatRecord, LdifParser, type LdifRecord } from '../ldif/index.js';
import type { Refusal } from '../partition/model/drop-rows.js';
import type { ChangeRecord } from '../records/apply.js';

/** One record of a file. */
export interface Item {
  /** Line where it begins, from 1; 0: it stands on no line. */
  readonly line: number;
  /** Of an item that stands on no line. */
  readonly dn?: string | undefined;
  /** What is to be done as things are now; undefined: nothing. Throws `LdapError` where it cannot be said. */
  change(): ChangeRecord | undefined | Promise<ChangeRecord | undefined>;
}

/** The records of a file, which can be read again and again. */
export interface RecordSource {
  /**
   * The records from number `done` on, from 0, in their order. `refused`: DNs of those that stand on no line and were
   * refused before.
   */
  items(done: number, refused?: ReadonlySet<string>): AsyncGenerator<Item>;
  /** What was refused, as LDIF with comments; `refusals` in their order. */
  rejects(refusals: readonly Refusal[]): AsyncGenerator<Buffer>;
}

const CHUNK = 64 * 1024;

/** The file from its start, as often as it is asked for; each chunk is the caller's. */
export async function* chunksOf(file: FileHandle): AsyncGenerator<Buffer> {
  for (let at = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(CHUNK), 0, CHUNK, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** An LDIF file: what stands in it, in its order. */
export class LdifSource implements RecordSource {
  readonly #file: FileHandle;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async *records(): AsyncGenerator<LdifRecord> {
    const parser = new LdifParser();
    for await (const chunk of chunksOf(this.#file)) yield* parser.push(chunk);
    yield* parser.end();
  }

  async *items(done: number): AsyncGenerator<Item> {
    let number = 0;
    for await (const record of this.records())
      if (number++ >= done) yield { line: record.line, change: () => changeOf(record) };
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

/** An entry without changetype is one to add. */
export function changeOf(record: LdifRecord): ChangeRecord {
  if (record.kind === 'error') throw new LdapError('protocolError', record.reason);
  return record.kind === 'content' ? { ...record, kind: 'add', controls: [] } : record;
}

export function refusalComment({ line, reason }: Refusal): Buffer {
  return formatComment(`${line > 0 ? `line ${line}: ` : ''}${reason.replaceAll(/[\r\n]+/g, ' ')}`);
}
