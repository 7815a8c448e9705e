import { rightsIn } from '../../access/right.js';
import type { Limits } from '../../access/rule.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { Connection, RightAnswer } from './right-answers.js';

/** Formats a table of rights, whether they are granted, and the deciding rules. */
export function formatRights(answers: readonly RightAnswer[]): string {
  return formatTable([
    ['right', 'given', 'by'],
    ...answers.map(({ right, isGranted, reason }) => [right, isGranted ? 'yes' : 'no', reason]),
  ]);
}

/** Formats a table of attributes, grouped by the rights on them. */
export function formatAttributeRights(attributes: readonly (readonly [AttributeDescription, number])[]): string {
  const groups = new Map<string, string[]>();
  for (const [{ text }, rightBits] of attributes) {
    const rights = rightsIn(rightBits).join(', ') || 'nothing';
    const attributeNames = groups.get(rights) ?? [];
    attributeNames.push(text);
    groups.set(rights, attributeNames);
  }
  const rows = [...groups].map(([rights, names]) => [rights, names.sort().join(', ')]);
  return rows.length === 0 ? '' : formatTable([['may', 'attributes of the entry'], ...rows]);
}

export function formatConnection({ address, strength, mechanism }: Connection): string {
  const cipher = strength > 0 ? `${strength} bits` : 'without TLS';
  const bindNote = mechanism === 'application' ? ', bound with an application password' : '';
  return `${address === undefined ? 'by a socket of this machine' : `from ${address}`}, ${cipher}${bindNote}`;
}

export function formatLimits(limits: Limits): string {
  const limitText = (name: string, value: number) =>
    value === 0 ? 'without limit' : `${value}${name === 'timeLimit' ? ' s' : ''}`;
  return Object.entries(limits)
    .map(([name, value]) => `${name} ${limitText(name, value)}`)
    .join(', ');
}

function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const formatRow = (row: readonly string[]) => row.map((cell, i) => cell.padEnd(widths[i]!)).join('  ');
  return rows.map((row) => `${formatRow(row).trimEnd()}\n`).join('');
}
