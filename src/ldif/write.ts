import type { PartialAttribute } from '../ldap/ldap-types.js';
import type { LdifChange, LdifRecord } from './ldif-types.js';

export interface LdifWriteOptions {
  /** Whether lines are folded at 76 columns (RFC 2849, note 2). Default: true. */
  readonly wrap?: boolean;
}

const COLUMNS = 76;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const LESS = 0x3c;

/** Whether the value may be written without base64 (RFC 2849, SAFE-STRING, and no trailing space, note 8). */
function isSafe(value: Buffer): boolean {
  const length = value.length;
  if (length === 0) return true;
  const firstByte = value[0]!;
  if (firstByte === SPACE || firstByte === COLON || firstByte === LESS || value[length - 1] === SPACE) return false;
  for (let i = 0; i < length; i++) {
    const byte = value[i]!;
    if (byte > 0x7e || byte === LF || byte === CR || byte < SPACE) return false;
  }
  return true;
}

/** Returns `name: value`, folded if `wrap`, with its line end, as a latin1 string. */
export function formatLine(name: string, value: Buffer, wrap: boolean): string {
  let text = name;
  if (value.length === 0) text += ':';
  else if (isSafe(value)) text += ': ' + value.toString('latin1');
  else text += ':: ' + value.toString('base64');
  return wrap && text.length > COLUMNS ? fold(text) : text + '\n';
}

function fold(text: string): string {
  const lines = [text.slice(0, COLUMNS)];
  for (let i = COLUMNS; i < text.length; i += COLUMNS - 1) lines.push(' ' + text.slice(i, i + COLUMNS - 1));
  return lines.join('\n') + '\n';
}

/** Formats an entry as a content record, with the blank line after it. */
export function formatEntry(
  dn: string,
  attributes: readonly PartialAttribute[],
  options: LdifWriteOptions = {},
): Buffer {
  const wrap = options.wrap ?? true;
  let text = formatLine('dn', Buffer.from(dn), wrap);
  for (const attribute of attributes) {
    for (const value of attribute.values) text += formatLine(attribute.type, value, wrap);
  }
  return Buffer.from(text + '\n', 'latin1');
}

/** Like `formatEntry`, for values that arrive in chunks. Such values are written in base64. */
export async function* formatEntryChunks(
  dn: string,
  attributes: readonly { readonly type: string; readonly values: readonly (Buffer | AsyncIterable<Buffer>)[] }[],
): AsyncGenerator<Buffer, void, undefined> {
  yield Buffer.from(formatLine('dn', Buffer.from(dn), true), 'latin1');
  for (const { type, values } of attributes) {
    for (const value of values) {
      if (value instanceof Uint8Array) yield Buffer.from(formatLine(type, value, true), 'latin1');
      else yield* base64Line(type, value);
    }
  }
  yield Buffer.from('\n');
}

/** Yields `name:: value`, folded. */
async function* base64Line(name: string, chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  yield Buffer.from(`${name}:: `, 'latin1');
  let column = name.length + 3;
  let remainder: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = remainder.length === 0 ? chunk : Buffer.concat([remainder, chunk]);
    const encodableLength = bytes.length - (bytes.length % 3);
    remainder = bytes.subarray(encodableLength);
    const foldedLines = foldFrom(column, bytes.toString('base64', 0, encodableLength));
    column = foldedLines.column;
    yield Buffer.from(foldedLines.text, 'latin1');
  }
  yield Buffer.from(`${foldFrom(column, remainder.toString('base64')).text}\n`, 'latin1');
}

/** Folds text that is written from `column` on. Returns the text and the column after it. */
function foldFrom(column: number, text: string): { text: string; column: number } {
  let offset = Math.max(COLUMNS - column, 0);
  if (text.length <= offset) return { text, column: column + text.length };
  const lines = [text.slice(0, offset)];
  let endColumn = column;
  for (; offset < text.length; offset += COLUMNS - 1) {
    const lineText = text.slice(offset, offset + COLUMNS - 1);
    lines.push(` ${lineText}`);
    endColumn = lineText.length + 1;
  }
  return { text: lines.join('\n'), column: endColumn };
}

/** Bytes of a value that are encoded at once. A multiple of 3, so that base64 needs no padding in between. */
const LONG_LINE = 48 * 1024;

/** Yields the text of a record as in its file, except that inserted values are folded differently. */
export function* formatRecord(record: Pick<LdifRecord, 'text' | 'detachedValues'>): Generator<Buffer> {
  const { text, detachedValues = [] } = record;
  let start = 0;
  for (const { textOffset, value } of detachedValues) {
    yield text.subarray(start, textOffset);
    for (let i = 0; i < value.length; i += LONG_LINE)
      yield Buffer.from(`\n ${value.toString('base64', i, i + LONG_LINE)}`, 'latin1');
    start = textOffset;
  }
  yield text.subarray(start);
}

/** Formats comment lines before or between records. A comment inside a record must not have a blank line after it. */
export function formatComment(text: string): Buffer {
  return Buffer.from(text.replace(/^/gm, '# ') + '\n');
}

/** The beginning of a comment line that tells what a record lacks. `LdifParser.leftOutCount` counts these lines. */
export const LEFT_OUT = '# left out: ';

/** The first line of a file, and a blank line. */
export const VERSION_LINE = Buffer.from('version: 1\n\n');

/** Formats a change record. A blank line ends it. */
export function formatChange(record: LdifChange): Buffer {
  let text = formatLine('dn', Buffer.from(record.dn), true);
  const addLine = (name: string, value: string | Buffer): void => {
    text += formatLine(name, Buffer.from(value as string), true);
  };
  const addValues = ({ type, values }: PartialAttribute): void => {
    for (const value of values) addLine(type, value);
  };
  addLine('changetype', record.kind);
  if (record.kind === 'add') record.attributes.forEach(addValues);
  else if (record.kind === 'modify') {
    for (const { operation, attribute } of record.changes) {
      addLine(operation, attribute.type);
      addValues(attribute);
      text += '-\n';
    }
  } else if (record.kind === 'modrdn') {
    addLine('newrdn', record.newRdn);
    addLine('deleteoldrdn', record.deleteOldRdn ? '1' : '0');
    if (record.newSuperior !== undefined) addLine('newsuperior', record.newSuperior);
  }
  return Buffer.from(text + '\n', 'latin1');
}
