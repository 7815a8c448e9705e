import { rightsIn } from '../../access/right.js';
import type { Limits } from '../../access/rule.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { Answer, Way } from './right-answers.js';

/** Rights, whether they are given, and by which rules: a table. */
export function rightsTable(answers: readonly Answer[]): string {
  return table([
    ['right', 'given', 'by'],
    ...answers.map(({ right, given, why }) => [right, given ? 'yes' : 'no', why]),
  ]);
}

/** The attributes of an entry under the rights on them, those with the same rights together. */
export function attributesTable(attributes: readonly (readonly [AttributeDescription, number])[]): string {
  const groups = new Map<string, string[]>();
  for (const [{ text }, set] of attributes) {
    const rights = rightsIn(set).join(', ') || 'nothing';
    const names = groups.get(rights) ?? [];
    names.push(text);
    groups.set(rights, names);
  }
  const rows = [...groups].map(([rights, names]) => [rights, names.sort().join(', ')]);
  return rows.length === 0 ? '' : table([['may', 'attributes of the entry'], ...rows]);
}

export function wayText({ address, strength, mechanism }: Way): string {
  const cipher = strength > 0 ? `${strength} bits` : 'without TLS';
  const bound = mechanism === 'application' ? ', bound with an application password' : '';
  return `${address === undefined ? 'by a socket of this machine' : `from ${address}`}, ${cipher}${bound}`;
}

export function limitsText(limits: Limits): string {
  const text = (name: string, value: number) =>
    value === 0 ? 'without limit' : `${value}${name === 'timeLimit' ? ' s' : ''}`;
  return Object.entries(limits)
    .map(([name, value]) => `${name} ${text(name, value)}`)
    .join(', ');
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const line = (row: readonly string[]) => row.map((cell, i) => cell.padEnd(widths[i]!)).join('  ');
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
}
