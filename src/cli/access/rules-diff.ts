import { diffLines } from 'diff';
import { ruleTexts } from '../../access/rule-texts.js';
import { pluralize } from '../exit.js';

/** Formats the differences between two valid rule texts, rule by rule. */
export function rulesDiff(before: string, after: string): string {
  const [old, now] = [ruleTexts(before), ruleTexts(after)];
  const added = [...now.keys()].filter((name) => !old.has(name));
  const removed = [...old.keys()].filter((name) => !now.has(name));
  const changed = [...now.keys()].filter((name) => old.has(name) && old.get(name) !== now.get(name));
  const same = now.size - added.length - changed.length;
  return [
    ...added.map((name) => `added ${name}\n${prefixLines('+', now.get(name)!)}`),
    ...removed.map((name) => `removed ${name}\n${prefixLines('-', old.get(name)!)}`),
    ...changed.map((name) => `changed ${name}\n${lineDiff(old.get(name)!, now.get(name)!)}`),
    `${added.length} added, ${removed.length} removed, ${changed.length} changed; ${pluralize(same, 'is', 'are')} the same\n`,
  ].join('');
}

function lineDiff(before: string, after: string): string {
  return diffLines(before, after)
    .map(({ added, removed, value }) => prefixLines(added ? '+' : removed ? '-' : ' ', value))
    .join('');
}

function prefixLines(mark: string, text: string): string {
  return text.replaceAll(/^(?=.)/gm, `  ${mark} `);
}
