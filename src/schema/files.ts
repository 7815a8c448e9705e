import { isUtf8 } from 'node:buffer';
import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { decodeBase64 } from '../bytes/base64.js';
import { CR_ALONE, utf16Problem } from '../bytes/text-form.js';
import { DEFINITION_KINDS, type DefinitionKind } from './definition.js';
import { SchemaError } from './schema-error.js';
import { didYouMean, printable } from './suggest.js';
import { LDAP_SYNTAX } from './syntaxes.js';

/** A definition in a schema file. */
export interface SourceDefinition {
  readonly kind: DefinitionKind;
  readonly text: string;
  readonly file: string;
  readonly line: number;
}

/** A schema file of the operator. */
export interface SchemaFile {
  readonly name: string;
  readonly text: string;
}

interface Line {
  readonly text: string;
  readonly line: number;
}

const MAX_FILE_BYTES = 16 * 1024 * 1024;
const KINDS = new Map<string, DefinitionKind>(DEFINITION_KINDS.map((kind) => [kind.toLowerCase(), kind]));
/** Attributes to skip: `structuralobjectclass` and the following ones, which slaptest writes into every file. */
const IGNORED_ATTRIBUTES = new Set(
  `dn version objectclass cn description structuralobjectclass entryuuid creatorsname createtimestamp entrycsn
  modifiersname modifytimestamp`.split(/\s+/),
);
const MACRO_DEPTH = 32;
/** Predefined macros of slapd. */
const SYSTEM_MACROS = [
  ['omsyn', LDAP_SYNTAX],
  ['omsboolean', `${LDAP_SYNTAX}.7`],
  ['omsdirectorystring', `${LDAP_SYNTAX}.15`],
  ['omsia5string', `${LDAP_SYNTAX}.26`],
  ['omsinteger', `${LDAP_SYNTAX}.27`],
  ['omsoctetstring', `${LDAP_SYNTAX}.40`],
] as const;

/** OIDs by macro name in lower case. */
export type Macros = Map<string, string>;

/** The macros that are defined before the first file. */
export function systemMacros(): Macros {
  return new Map(SYSTEM_MACROS);
}

/** Compares file names. A number in braces counts as a number: cn={10}own.ldif comes after cn={9}other.ldif. */
function compareNames(a: string, b: string): number {
  const [one, other] = [a, b].map((name) => name.replace(/\{(\d+)\}/, (_, digits: string) => digits.padStart(9, '0')));
  return one! < other! ? -1 : 1;
}

/** Paths of the `*.ldif` files in a folder, sorted by name. */
export function schemaFiles(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => name.endsWith('.ldif'))
      .sort(compareNames)
      .map((name) => join(folder, name));
  } catch (cause) {
    throw new SchemaError(
      `schema folder '${folder}' cannot be read (${errorCode(cause)}); create it or correct its path`,
    );
  }
}

function errorCode(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
}

function readText(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (cause) {
    throw new SchemaError(`cannot be read (${errorCode(cause)}); correct its permissions or remove it`, {
      file,
      line: 0,
    });
  }
  if (bytes.length > MAX_FILE_BYTES) {
    throw new SchemaError(`${bytes.length} bytes; a schema file has at most ${MAX_FILE_BYTES}`, { file, line: 0 });
  }
  return decodeUtf8(bytes, file);
}

export function readSchemaFile(file: string): SourceDefinition[] {
  return readDefinitions(readText(file), file);
}

/** Reads the schema files in the folders, in order, and warns of others. Throws for a folder without schema files. */
export function readSchemaFolders(folders: readonly string[], warn?: (message: string) => void): SchemaFile[] {
  for (const folder of warn ? folders : []) {
    requireSchemaFiles(folder);
    for (const { name } of readdirSync(folder, { withFileTypes: true }).filter(isUnread))
      warn!(
        `schema folder '${folder}': '${printable(name)}' is not read, only .ldif files are; convert it or take it away`,
      );
  }
  return folders.flatMap(requireSchemaFiles).map((path) => ({ name: path, text: readText(path) }));
}

/** Whether an entry of a schema folder is a file that is not read and may hold definitions. */
function isUnread(item: Dirent): boolean {
  return !item.isDirectory() && !/^\.|^readme|~$|\.(?:ldif|md)$/i.test(item.name);
}

function requireSchemaFiles(folder: string): string[] {
  const files = schemaFiles(folder);
  if (files.length > 0) return files;
  const schemaFile = readdirSync(folder).find((name) => name.endsWith('.schema'));
  const remedy =
    schemaFile === undefined
      ? 'put files of "attributeTypes:" and "objectClasses:" lines into it, or leave it out'
      : `convert '${printable(schemaFile)}' to LDIF, with slaptest or by hand: "attributeTypes:" and "objectClasses:" lines`;
  throw new SchemaError(`schema folder '${folder}' holds no .ldif file; ${remedy}`);
}

function decodeUtf8(bytes: Buffer, file: string): string {
  const problem = utf16Problem(bytes);
  if (problem) throw new SchemaError(problem, { file, line: 0 });
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new SchemaError('is not UTF-8 text; convert it', { file, line: 0 });
  }
}

/**
 * Parses LDIF text with any number of entries and returns the schema definitions in it. Other attributes are skipped.
 * Attribute names and OID macros of OpenLDAP's cn=config (`olcAttributeTypes`, `olcObjectIdentifier`) are supported;
 * macros that the file defines are added to `macros`. `file` is used in error messages only.
 */
export function readDefinitions(text: string, file: string, macros = systemMacros()): SourceDefinition[] {
  const definitions: SourceDefinition[] = [];
  for (const line of unfold(text, file)) {
    const { name, value } = splitLine(line, file);
    const attributeKey = name.replace(/^olc/i, '').toLowerCase();
    const definitionText = value.replace(/^\{\d+\}/, '');
    const kind = KINDS.get(attributeKey);
    if (kind) definitions.push({ kind, text: expandMacros(definitionText, macros), file, line: line.line });
    else if (attributeKey === 'objectidentifier') defineMacro(definitionText, macros, file, line.line);
    else if (!IGNORED_ATTRIBUTES.has(attributeKey)) {
      const hint = didYouMean(name, DEFINITION_KINDS) || '; remove it';
      throw new SchemaError(`'${printable(name)}' is not a schema attribute${hint}`, { file, line: line.line });
    }
  }
  return definitions;
}

/** Joins folded lines (RFC 2849 note 2). Drops comments and blank lines. */
function unfold(text: string, file: string): Line[] {
  const lines: { text: string; line: number; isComment: boolean }[] = [];
  let mayContinue = false;
  const physicalLines = text.split(/\r?\n/);
  const crIndex = physicalLines.findIndex((part) => /\r(?!$)/.test(part));
  if (crIndex >= 0) throw new SchemaError(CR_ALONE, { file, line: crIndex + 1 });
  for (let i = 0; i < physicalLines.length; i++) {
    const physicalLine = physicalLines[i]!;
    if (physicalLine.startsWith(' ')) {
      const lastLine = lines[lines.length - 1];
      if (!mayContinue && physicalLine.trim() === '') continue;
      if (!mayContinue || !lastLine)
        throw new SchemaError('continues no line; remove the space at its start', { file, line: i + 1 });
      lastLine.text += physicalLine.slice(1);
    } else if (physicalLine === '') mayContinue = false;
    else {
      lines.push({ text: physicalLine, line: i + 1, isComment: physicalLine.startsWith('#') });
      mayContinue = true;
    }
  }
  return lines.filter((line) => !line.isComment);
}

function splitLine(line: Line, file: string): { name: string; value: string } {
  const match = /^([A-Za-z][A-Za-z0-9;.-]*):(:?)[ ]*(.*)$/s.exec(line.text);
  if (!match) {
    const problem = `'${printable(line.text.slice(0, 40))}' is not 'attribute: value'`;
    throw new SchemaError(`${problem}; start a continued line with a space`, { file, line: line.line });
  }
  const [, name = '', encoded, value = ''] = match;
  if (!encoded) return { name, value: value.trimEnd() };
  const bytes = Buffer.from(value.trimEnd());
  const decoded = decodeBase64(bytes, 0, bytes.length);
  const problem = typeof decoded === 'string' ? decoded : isUtf8(decoded) ? undefined : 'the value is not UTF-8';
  if (problem !== undefined) throw new SchemaError(problem, { file, line: line.line });
  return { name, value: decoded.toString('utf8') };
}

function defineMacro(body: string, macros: Macros, file: string, line: number): void {
  const match = /^\s*([A-Za-z][\w.-]*)\s+(\S+)\s*$/.exec(body);
  if (!match) throw new SchemaError("expected 'name OID' for an object identifier macro", { file, line });
  macros.set(match[1]!.toLowerCase(), resolveMacro(match[2]!, macros));
}

/** Resolves `name` or `name:1.2` to a numeric OID. Returns other words unchanged. */
function resolveMacro(word: string, macros: Macros): string {
  let text = word;
  for (let depth = 0; depth < MACRO_DEPTH; depth++) {
    const colon = text.indexOf(':');
    const macroOid = macros.get((colon < 0 ? text : text.slice(0, colon)).toLowerCase());
    if (macroOid === undefined) break;
    text = colon < 0 ? macroOid : `${macroOid}.${text.slice(colon + 1)}`;
  }
  return text;
}

function expandMacros(body: string, macros: Macros): string {
  return body
    .replace(/^(\s*\(\s*)(\S+)/, (_, open: string, oid: string) => open + resolveMacro(oid, macros))
    .replace(/(\bSYNTAX\s+)([A-Za-z][\w:.-]*)/, (_, key: string, oid: string) => key + resolveMacro(oid, macros));
}

/** Returns the file name without its folder, for error messages. */
export function shortName(file: string): string {
  return basename(file);
}
