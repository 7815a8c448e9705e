import { decodeBase64 } from '../../bytes/base64.js';
import type { Report } from './report.js';

/** A line of a file, joined with its continuation lines. */
export interface LogicalLine {
  /** Number of the first physical line, from 1. */
  readonly line: number;
  readonly text: string;
}

/**
 * Joins lines with continuation lines, which begin with white space. LDIF removes one space (RFC 2849); slapd.conf
 * keeps white space between words. Comments are dropped; blank lines stay as empty lines.
 */
function logicalLines(text: string, isLdif: boolean): LogicalLine[] {
  const lines: { line: number; text: string }[] = [];
  let isComment = false;
  text.split(/\r?\n/).forEach((physical, i) => {
    const lastLine = lines.at(-1);
    if (/^[ \t]/.test(physical) && (isComment || lastLine?.text)) {
      if (!isComment) lastLine!.text += isLdif ? physical.slice(1) : ` ${physical.trim()}`;
      return;
    }
    isComment = physical.startsWith('#');
    if (!isComment) lines.push({ line: i + 1, text: isLdif ? physical : physical.trim() });
  });
  return lines;
}

/** The `access to …` and `limits` lines of one slapd database, in order. */
export interface SlapdDatabase {
  /** Suffix DNs. Empty if the source does not name them: then the lines apply to all entries. */
  readonly suffixes: readonly string[];
  /** Each text begins with `to`. */
  readonly access: readonly LogicalLine[];
  /** `limits` lines, without that word. */
  readonly limits: readonly LogicalLine[];
}

/** An `aci` value and the DN of the entry that has the value. */
export interface AciValue extends LogicalLine {
  readonly dn: string;
}

export interface Source {
  readonly databases: readonly SlapdDatabase[];
  readonly acis: readonly AciValue[];
}

interface Section {
  readonly kind: 'global' | 'data' | 'own';
  readonly suffixes: string[];
  readonly access: LogicalLine[];
  readonly limits: LogicalLine[];
}

/** Internal databases of slapd that have no counterpart in Rowan. */
const SERVER_DATABASE = /^(?:\{-?\d+\})?(?:config|monitor)$/i;
const FRONTEND_DATABASE = /^(?:\{-?\d+\})?frontend$/i;

/** Extracts access lines from a slapd.conf or from a cn=config in LDIF, or `aci` values from a directory in LDIF. */
export function readSource(text: string, report: Report): Source {
  const isLdif = /^dn::? */im.test(text);
  const lines = logicalLines(text, isLdif);
  return isLdif ? readLdif(lines, report) : { databases: readConf(lines, report), acis: [] };
}

function readConf(lines: readonly LogicalLine[], report: Report): SlapdDatabase[] {
  const sections: Section[] = [{ kind: 'global', suffixes: [], access: [], limits: [] }];
  for (const { line, text } of lines) {
    const [, word = '', rest = ''] = /^(\S+)\s*(.*)$/s.exec(text) ?? [];
    const section = sections.at(-1)!;
    switch (word.toLowerCase()) {
      case 'database':
        sections.push({ kind: sectionKind(rest), suffixes: [], access: [], limits: [] });
        break;
      case 'suffix':
        section.suffixes.push(...splitWords(rest));
        break;
      case 'access':
        section.access.push({ line, text: rest });
        break;
      case 'to':
        section.access.push({ line, text });
        break;
      case 'olcaccess:':
        section.access.push({ line, text: withoutNumber(rest) });
        break;
      case 'limits':
      case 'olclimits:':
        section.limits.push({ line, text: withoutNumber(rest) });
        break;
      case 'include':
        if (/\.schema"?$/.test(rest)) report.add('said', line, `schema is given by --schema-folders, not by ${rest}`);
        else report.add('left', line, `the file ${rest} is not read; give its lines in one file with these`);
    }
  }
  return toDatabases(sections, report);
}

function sectionKind(name: string): Section['kind'] {
  return SERVER_DATABASE.test(name) ? 'own' : FRONTEND_DATABASE.test(name) ? 'global' : 'data';
}

/** Splits a line at white space. A quoted text counts as one word. */
export function splitWords(text: string): string[] {
  const words: string[] = [];
  let word = '';
  let isQuoted = false;
  let hasWord = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    if (char === '"') {
      isQuoted = !isQuoted;
      hasWord = true;
    } else if (char === '\\' && i + 1 < text.length) {
      word += text[++i]!;
      hasWord = true;
    } else if (!isQuoted && /\s/.test(char)) {
      if (hasWord) words.push(word);
      word = '';
      hasWord = false;
    } else {
      word += char;
      hasWord = true;
    }
  }
  if (hasWord) words.push(word);
  return words;
}

function withoutNumber(text: string): string {
  return text.replace(/^\{-?\d+\}\s*/, '');
}

/** Assigns the lines to databases. Lines of the frontend, or of no database, are appended to each. */
function toDatabases(sections: readonly Section[], report: Report): SlapdDatabase[] {
  const globalSections = sections.filter(({ kind }) => kind === 'global');
  const global = globalSections.flatMap(({ access }) => access);
  const globalLimits = globalSections.flatMap(({ limits }) => limits);
  for (const { line } of sections.filter(({ kind }) => kind === 'own').flatMap(({ access }) => access))
    report.add('said', line, 'this is about cn=config or cn=monitor, which are not for rules');
  const dataSections = sections.filter(({ kind }) => kind === 'data');
  if (dataSections.length === 0)
    return global.length + globalLimits.length === 0 ? [] : [{ suffixes: [], access: global, limits: globalLimits }];
  const databases = dataSections.map(({ suffixes, access, limits }) => ({
    suffixes,
    access: [...access, ...global],
    limits: [...limits, ...globalLimits],
  }));
  const hasAccess = databases.some(({ access, limits }) => access.length + limits.length > 0);
  return hasAccess ? databases : [];
}

interface LdifValue {
  readonly line: number;
  readonly attribute: string;
  readonly value: string;
}

function readLdif(lines: readonly LogicalLine[], report: Report): Source {
  const sections: Section[] = [];
  const acis: AciValue[] = [];
  for (const record of splitRecords(lines, report)) {
    const valuesOf = (name: string) => record.filter((one) => one.attribute === name);
    const dn = valuesOf('dn')[0]?.value ?? '';
    for (const { line, value } of valuesOf('aci')) acis.push({ line, text: value, dn });
    const access = valuesOf('olcaccess');
    const limits = valuesOf('olclimits');
    if (valuesOf('olcdatabase').length + access.length + limits.length === 0) continue;
    const databaseName = valuesOf('olcdatabase')[0]?.value ?? /^olcDatabase=([^,]+)/i.exec(dn)?.[1] ?? '';
    sections.push({
      kind: sectionKind(databaseName),
      suffixes: valuesOf('olcsuffix').map(({ value }) => value),
      access: sortByNumber(access).map(({ line, value }) => ({ line, text: withoutNumber(value) })),
      limits: sortByNumber(limits).map(({ line, value }) => ({ line, text: withoutNumber(value) })),
    });
  }
  return { databases: toDatabases(sections, report), acis };
}

/** Sorts by the numbers in braces (`{0}to …`) if all values have numbers. */
function sortByNumber(values: readonly LdifValue[]): readonly LdifValue[] {
  const numbers = new Map(values.map((one) => [one, Number(/^\{(-?\d+)\}/.exec(one.value)?.[1] ?? Number.NaN)]));
  if ([...numbers.values()].some(Number.isNaN)) return values;
  return [...values].sort((a, b) => numbers.get(a)! - numbers.get(b)!);
}

function splitRecords(lines: readonly LogicalLine[], report: Report): LdifValue[][] {
  const records: LdifValue[][] = [[]];
  for (const { line, text } of lines) {
    if (text === '') records.push([]);
    const lineMatch = /^([\w.;-]+):(:?)[ \t]*(.*)$/s.exec(text);
    if (!lineMatch) continue;
    const attribute = lineMatch[1]!.toLowerCase();
    if (attribute === 'dn' && records.at(-1)!.some((one) => one.attribute === 'dn')) records.push([]);
    const bytes = Buffer.from(lineMatch[3]!.trimEnd());
    const decoded = lineMatch[2] === '' ? undefined : decodeBase64(bytes, 0, bytes.length);
    const value = decoded?.toString() ?? lineMatch[3]!;
    if (typeof decoded === 'string') report.add('left', line, decoded);
    else if (value.includes('\u{fffd}')) report.add('left', line, `the value of ${attribute} is not UTF-8`);
    else records.at(-1)!.push({ line, attribute, value });
  }
  return records;
}
