import { decodeBase64 } from '../../bytes/base64.js';
import { type LogicalLine, logicalLines } from './logical-lines.js';
import type { Report } from './report.js';

/** The `access to …` lines of a slapd database, in order. */
export interface SlapdDatabase {
  /** Suffix DNs. Empty if unknown: then the lines apply to all entries. */
  readonly suffixes: readonly string[];
  /** Each text begins with `to`. */
  readonly access: readonly LogicalLine[];
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
}

/** Internal databases of slapd that have no counterpart in Rowan. */
const OWN = /^(?:\{-?\d+\})?(?:config|monitor)$/i;
const FRONTEND = /^(?:\{-?\d+\})?frontend$/i;

/** Extracts access lines from a slapd.conf or from a cn=config in LDIF, or `aci` values from a directory in LDIF. */
export function readSource(text: string, report: Report): Source {
  const isLdif = /^dn::? */im.test(text);
  const lines = logicalLines(text, isLdif);
  return isLdif ? readLdif(lines, report) : { databases: readConf(lines, report), acis: [] };
}

function readConf(lines: readonly LogicalLine[], report: Report): SlapdDatabase[] {
  const sections: Section[] = [{ kind: 'global', suffixes: [], access: [] }];
  for (const { line, text } of lines) {
    const [, word = '', rest = ''] = /^(\S+)\s*(.*)$/s.exec(text) ?? [];
    const section = sections.at(-1)!;
    switch (word.toLowerCase()) {
      case 'database':
        sections.push({ kind: kindOf(rest), suffixes: [], access: [] });
        break;
      case 'suffix':
        section.suffixes.push(...words(rest));
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
      case 'include':
        if (/\.schema"?$/.test(rest)) report.add('said', line, `schema is given by --schema-folders, not by ${rest}`);
        else report.add('left', line, `the file ${rest} is not read; give its lines in one file with these`);
    }
  }
  return databasesOf(sections, report);
}

function kindOf(name: string): Section['kind'] {
  return OWN.test(name) ? 'own' : FRONTEND.test(name) ? 'global' : 'data';
}

/** Splits a line into words. A quoted text is one word. */
export function words(text: string): string[] {
  const found: string[] = [];
  let word = '';
  let quoted = false;
  let begun = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    if (char === '"') {
      quoted = !quoted;
      begun = true;
    } else if (char === '\\' && i + 1 < text.length) {
      word += text[++i]!;
      begun = true;
    } else if (!quoted && /\s/.test(char)) {
      if (begun) found.push(word);
      word = '';
      begun = false;
    } else {
      word += char;
      begun = true;
    }
  }
  if (begun) found.push(word);
  return found;
}

function withoutNumber(text: string): string {
  return text.replace(/^\{-?\d+\}\s*/, '');
}

/** Assigns lines to databases. Lines of the frontend or of no database come last in each database. */
function databasesOf(sections: readonly Section[], report: Report): SlapdDatabase[] {
  const global = sections.filter(({ kind }) => kind === 'global').flatMap(({ access }) => access);
  for (const { line } of sections.filter(({ kind }) => kind === 'own').flatMap(({ access }) => access))
    report.add('said', line, 'this is about cn=config or cn=monitor, which are not for rules');
  const data = sections.filter(({ kind }) => kind === 'data');
  if (data.length === 0) return global.length === 0 ? [] : [{ suffixes: [], access: global }];
  const found = data.map(({ suffixes, access }) => ({ suffixes, access: [...access, ...global] }));
  const read = found.some(({ access }) => access.length > 0);
  return read ? found : [];
}

interface Value {
  readonly line: number;
  readonly name: string;
  readonly value: string;
}

function readLdif(lines: readonly LogicalLine[], report: Report): Source {
  const sections: Section[] = [];
  const acis: AciValue[] = [];
  for (const record of recordsOf(lines, report)) {
    const of = (name: string) => record.filter((one) => one.name === name);
    const dn = of('dn')[0]?.value ?? '';
    for (const { line, value } of of('aci')) acis.push({ line, text: value, dn });
    const access = of('olcaccess');
    if (of('olcdatabase').length === 0 && access.length === 0) continue;
    const name = of('olcdatabase')[0]?.value ?? /^olcDatabase=([^,]+)/i.exec(dn)?.[1] ?? '';
    sections.push({
      kind: kindOf(name),
      suffixes: of('olcsuffix').map(({ value }) => value),
      access: inOrder(access).map(({ line, value }) => ({ line, text: withoutNumber(value) })),
    });
  }
  return { databases: databasesOf(sections, report), acis };
}

/** Sorts by the numbers in braces, if all values have numbers. */
function inOrder(values: readonly Value[]): readonly Value[] {
  const numbers = new Map(values.map((one) => [one, Number(/^\{(-?\d+)\}/.exec(one.value)?.[1] ?? Number.NaN)]));
  if ([...numbers.values()].some(Number.isNaN)) return values;
  return [...values].sort((a, b) => numbers.get(a)! - numbers.get(b)!);
}

function recordsOf(lines: readonly LogicalLine[], report: Report): Value[][] {
  const records: Value[][] = [[]];
  for (const { line, text } of lines) {
    if (text === '') records.push([]);
    const parts = /^([\w.;-]+):(:?)[ \t]*(.*)$/s.exec(text);
    if (!parts) continue;
    const name = parts[1]!.toLowerCase();
    if (name === 'dn' && records.at(-1)!.some((one) => one.name === 'dn')) records.push([]);
    const bytes = Buffer.from(parts[3]!.trimEnd());
    const decoded = parts[2] === '' ? undefined : decodeBase64(bytes, 0, bytes.length);
    const value = decoded?.toString() ?? parts[3]!;
    if (typeof decoded === 'string') report.add('left', line, decoded);
    else if (value.includes('\u{fffd}')) report.add('left', line, `the value of ${name} is not UTF-8`);
    else records.at(-1)!.push({ line, name, value });
  }
  return records;
}
