import { decodeBase64 } from '../bytes/base64.js';
import type { Modification } from '../ldap/ldap-types.js';
import { type LdifControl, LdifFault, type LdifOptions, type LdifRecord } from './ldif-types.js';
import type { LineReader } from './lines.js';
import { ATTRIBUTE_DESCRIPTION, type AttributeName } from './names.js';
import { readText, readValue } from './values.js';

type AttributeList = { type: string; values: Buffer[] }[];

/** A record without its position in the file. */
export type RecordBody = LdifRecord extends infer R
  ? R extends LdifRecord
    ? Omit<R, 'line' | 'offset' | 'text'>
    : never
  : never;

let recordCount = 0;

/** Texts for error messages, by the names in the last lines of an `ldapsearch` dump that was made without `-LLL`. */
const DUMP_HINTS = new Map(['search', 'result'].map((name) => [name, ' (a dump of ldapsearch: make it with -LLL)']));

/** Reads a record from its `dn:` line to its end. Throws `LdifFault`; the caller then skips the rest of the record. */
export function readRecord(lines: LineReader, options: LdifOptions): RecordBody {
  const { key } = lines.readName().group;
  if (key !== 'dn') throw new LdifFault(lines.number, `a record begins with "dn:"${DUMP_HINTS.get(key) ?? ''}`);
  const dn = readText(lines, options);
  if (!lines.nextLine()) throw new LdifFault(lines.number, 'the record ends after its dn');
  const controls: LdifControl[] = [];
  let name = lines.readName();
  while (name.group.key === 'control') {
    controls.push(readControl(lines, options));
    if (!lines.nextLine()) throw new LdifFault(lines.number, '"changetype:" must follow "control:"');
    name = lines.readName();
  }
  if (name.group.key === 'changetype') return readChange(lines, dn, controls, options);
  if (controls.length > 0) throw new LdifFault(lines.number, '"changetype:" must follow "control:"');
  return { kind: 'content', dn, attributes: readAttributes(lines, name, options) };
}

/** Reads attribute lines up to the end of the record. `firstName`: the name in the current line. */
function readAttributes(lines: LineReader, firstName: AttributeName, options: LdifOptions): AttributeList {
  const attributes: AttributeList = [];
  const recordNumber = ++recordCount;
  let name = firstName;
  for (;;) {
    const group = name.group;
    const value = readValue(lines, options);
    if (group.lastRecordNumber === recordNumber) attributes[group.attributeIndex]!.values.push(value);
    else {
      if (group.key === 'dn') throw new LdifFault(lines.number, 'a second "dn:"; a blank line is missing before it');
      if (group.key === 'changetype') throw new LdifFault(lines.number, '"changetype:" must come right after "dn:"');
      group.lastRecordNumber = recordNumber;
      group.attributeIndex = attributes.length;
      attributes.push({ type: name.text, values: [value] });
    }
    if (!lines.nextLine()) return attributes;
    name = lines.readName();
  }
}

function readChange(lines: LineReader, dn: string, controls: LdifControl[], options: LdifOptions): RecordBody {
  const kind = readText(lines, options).trim().toLowerCase();
  switch (kind) {
    case 'add':
      if (!lines.nextLine()) throw new LdifFault(lines.number, '"changetype: add" has no attributes');
      return { kind, dn, controls, attributes: readAttributes(lines, lines.readName(), options) };
    case 'delete':
      if (lines.nextLine()) throw new LdifFault(lines.number, 'nothing may follow "changetype: delete"');
      return { kind, dn, controls };
    case 'modify':
      return { kind, dn, controls, changes: readModify(lines, options) };
    case 'modrdn':
    case 'moddn':
      return { kind: 'modrdn', dn, controls, ...readRename(lines, options) };
    default:
      throw new LdifFault(lines.number, 'unknown changetype; there are add, delete, modify, modrdn and moddn');
  }
}

const OPERATIONS = new Set(['add', 'delete', 'replace', 'increment']);

function isDash(lines: LineReader): boolean {
  return lines.stop - lines.start === 1 && lines.bytes[lines.start] === 0x2d;
}

/** Reads `add: mail`, its values, `-`, and so on. The last `-` may be missing. */
function readModify(lines: LineReader, options: LdifOptions): Modification[] {
  const changes: Modification[] = [];
  while (lines.nextLine()) {
    const operation = lines.readName().group.key;
    if (!OPERATIONS.has(operation)) {
      throw new LdifFault(lines.number, 'expected "add:", "delete:", "replace:" or "increment:"');
    }
    const line = lines.number;
    const type = readText(lines, options).trim();
    const values: Buffer[] = [];
    while (lines.nextLine() && !isDash(lines)) {
      const name = lines.readName();
      if (name.group.key !== type.toLowerCase()) {
        throw new LdifFault(lines.number, `"${name.text}" in a change of another attribute; "-" is missing before it`);
      }
      values.push(readValue(lines, options));
    }
    changes.push(checkChange({ operation: operation as Modification['operation'], attribute: { type, values } }, line));
  }
  if (changes.length === 0) throw new LdifFault(lines.number, '"changetype: modify" has no changes');
  return changes;
}

function checkChange(change: Modification, line: number): Modification {
  const { operation, attribute } = change;
  if (!ATTRIBUTE_DESCRIPTION.test(attribute.type))
    throw new LdifFault(line, `no attribute description after "${operation}:"`);
  const count = attribute.values.length;
  if (operation === 'add' && count === 0) throw new LdifFault(line, `"add: ${attribute.type}" has no values`);
  if (operation === 'increment' && count !== 1) {
    throw new LdifFault(line, `"increment: ${attribute.type}" has ${count} values; it takes one`);
  }
  return change;
}

function readRename(
  lines: LineReader,
  options: LdifOptions,
): { newRdn: string; deleteOldRdn: boolean; newSuperior: string | undefined } {
  const newRdn = expectLine(lines, 'newrdn', options);
  const flag = expectLine(lines, 'deleteoldrdn', options).trim();
  if (flag !== '0' && flag !== '1') throw new LdifFault(lines.number, '"deleteoldrdn:" must be 0 or 1');
  let newSuperior: string | undefined;
  if (lines.nextLine()) {
    if (lines.readName().group.key !== 'newsuperior') throw new LdifFault(lines.number, 'expected "newsuperior:"');
    newSuperior = readText(lines, options);
    if (lines.nextLine()) throw new LdifFault(lines.number, 'nothing may follow "newsuperior:"');
  }
  return { newRdn, deleteOldRdn: flag === '1', newSuperior };
}

function expectLine(lines: LineReader, keyword: string, options: LdifOptions): string {
  if (!lines.nextLine() || lines.readName().group.key !== keyword)
    throw new LdifFault(lines.number, `expected "${keyword}:"`);
  return readText(lines, options);
}

const CONTROL_PATTERN = /^([0-2](?:\.\d+)+)(?: +(true|false))?(?: *:([:<]?) *(.*))?$/s;

/** Reads `control: OID [true|false][: value]`. */
function readControl(lines: LineReader, options: LdifOptions): LdifControl {
  const text = readValue(lines, options).toString('latin1');
  const match = CONTROL_PATTERN.exec(text);
  if (!match) throw new LdifFault(lines.number, 'expected "control: OID", then "true" or "false", then ": value"');
  const [, oid, criticality, valueMarker, value] = match;
  if (valueMarker === '<') throw new LdifFault(lines.number, 'a control value from a URL is not read');
  let bytes = value === undefined ? undefined : Buffer.from(value, 'latin1');
  if (bytes && valueMarker === ':') {
    const decoded = decodeBase64(bytes, 0, bytes.length);
    if (typeof decoded === 'string') throw new LdifFault(lines.number, decoded);
    bytes = Buffer.from(decoded);
  }
  return { oid: oid!, critical: criticality === 'true', value: bytes };
}

export function checkVersion(lines: LineReader, options: LdifOptions): void {
  if (readText(lines, options).trim() !== '1') throw new LdifFault(lines.number, 'only LDIF version 1 can be read');
}
