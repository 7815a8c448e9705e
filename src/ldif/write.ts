import type { PartialAttribute } from '../ldap/ldap-types.js';
import type { LdifAdd, LdifDelete, LdifModify, LdifRecord, LdifRename } from './ldif-types.js';

export interface LdifWriteOptions {
  /** Fold lines at 76 columns (RFC 2849, note 2); true unless told. */
  readonly wrap?: boolean;
}

const COLUMNS = 76;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const LESS = 0x3c;

/** Whether the value may stand as it is after `: ` (RFC 2849, SAFE-STRING; no space at its end either, note 8). */
function isSafe(value: Buffer): boolean {
  const length = value.length;
  if (length === 0) return true;
  const first = value[0]!;
  if (first === SPACE || first === COLON || first === LESS || value[length - 1] === SPACE) return false;
  for (let i = 0; i < length; i++) {
    const byte = value[i]!;
    if (byte > 0x7e || byte === LF || byte === CR || byte < SPACE) return false;
  }
  return true;
}

/** `name: value` as characters of one byte each, folded, with its line end. */
function line(name: string, value: Buffer, wrap: boolean): string {
  let text = name;
  if (value.length === 0) text += ':';
  else if (isSafe(value)) text += ': ' + value.toString('latin1');
  else text += ':: ' + value.toString('base64');
  return wrap && text.length > COLUMNS ? fold(text) : text + '\n';
}

function fold(text: string): string {
  const lines = [text.slice(0, COLUMNS)];
  for (let at = COLUMNS; at < text.length; at += COLUMNS - 1) lines.push(' ' + text.slice(at, at + COLUMNS - 1));
  return lines.join('\n') + '\n';
}

/** An entry as a content record, the blank line after it included. */
export function formatEntry(
  dn: string,
  attributes: readonly PartialAttribute[],
  options: LdifWriteOptions = {},
): Buffer {
  const wrap = options.wrap ?? true;
  let text = line('dn', Buffer.from(dn), wrap);
  for (const attribute of attributes) {
    for (const value of attribute.values) text += line(attribute.type, value, wrap);
  }
  return Buffer.from(text + '\n', 'latin1');
}

/** An entry as `formatEntry` gives it, for values that come in pieces; those are written as base64. */
export async function* formatEntryPieces(
  dn: string,
  attributes: readonly { readonly type: string; readonly values: readonly (Buffer | AsyncIterable<Buffer>)[] }[],
): AsyncGenerator<Buffer, void, undefined> {
  yield Buffer.from(line('dn', Buffer.from(dn), true), 'latin1');
  for (const { type, values } of attributes) {
    for (const value of values) {
      if (value instanceof Uint8Array) yield Buffer.from(line(type, value, true), 'latin1');
      else yield* base64Line(type, value);
    }
  }
  yield Buffer.from('\n');
}

/** `name:: value`, folded. */
async function* base64Line(name: string, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  yield Buffer.from(`${name}:: `, 'latin1');
  let column = name.length + 3;
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    const whole = bytes.length - (bytes.length % 3);
    rest = bytes.subarray(whole);
    const folded = foldFrom(column, bytes.toString('base64', 0, whole));
    column = folded.column;
    yield Buffer.from(folded.text, 'latin1');
  }
  yield Buffer.from(`${foldFrom(column, rest.toString('base64')).text}\n`, 'latin1');
}

/** Text that goes on at a column, folded, and the column after it. */
function foldFrom(column: number, text: string): { text: string; column: number } {
  let at = Math.max(COLUMNS - column, 0);
  if (text.length <= at) return { text, column: column + text.length };
  const lines = [text.slice(0, at)];
  let width = column;
  for (; at < text.length; at += COLUMNS - 1) {
    const part = text.slice(at, at + COLUMNS - 1);
    lines.push(` ${part}`);
    width = part.length + 1;
  }
  return { text: lines.join('\n'), column: width };
}

/** So many bytes of a value make a line: a whole number of base64 groups. */
const LONG_LINE = 48 * 1024;

/** A record as it stands in its file, but for the folds of values that stand apart. */
export function* formatRecord({ text, apart = [] }: Pick<LdifRecord, 'text' | 'apart'>): Generator<Buffer> {
  let from = 0;
  for (const { at, value } of apart) {
    yield text.subarray(from, at);
    for (let i = 0; i < value.length; i += LONG_LINE)
      yield Buffer.from(`\n ${value.toString('base64', i, i + LONG_LINE)}`, 'latin1');
    from = at;
  }
  yield text.subarray(from);
}

/** Comment lines, before or between records; a blank line must not follow where a record goes on. */
export function formatComment(text: string): Buffer {
  return Buffer.from(text.replace(/^/gm, '# ') + '\n');
}

/** The line that begins a file. */
export const VERSION_LINE = Buffer.from('version: 1\n\n');

/** A change record, the blank line after it included; controls are left out. */
export function formatChange(record: LdifAdd | LdifDelete | LdifModify | LdifRename): Buffer {
  let text = line('dn', Buffer.from(record.dn), true);
  const add = (name: string, value: string | Buffer): void => {
    text += line(name, Buffer.from(value as string), true);
  };
  const addValues = ({ type, values }: PartialAttribute): void => {
    for (const value of values) add(type, value);
  };
  add('changetype', record.kind);
  if (record.kind === 'add') record.attributes.forEach(addValues);
  else if (record.kind === 'modify') {
    for (const { operation, attribute } of record.changes) {
      add(operation, attribute.type);
      addValues(attribute);
      text += '-\n';
    }
  } else if (record.kind === 'modrdn') {
    add('newrdn', record.newRdn);
    add('deleteoldrdn', record.deleteOldRdn ? '1' : '0');
    if (record.newSuperior !== undefined) add('newsuperior', record.newSuperior);
  }
  return Buffer.from(text + '\n', 'latin1');
}
