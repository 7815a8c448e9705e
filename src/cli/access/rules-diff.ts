import { diffLines } from 'diff';
import { ruleTexts } from '../../access/rule-texts.js';
import { pluralize } from '../exit.js';

/** Formats the differences between two valid rule texts, rule by rule. */
export function rulesDiff(oldText: string, newText: string): string {
  const [oldRules, newRules] = [ruleTexts(oldText), ruleTexts(newText)];
  const addedNames = [...newRules.keys()].filter((name) => !oldRules.has(name));
  const removedNames = [...oldRules.keys()].filter((name) => !newRules.has(name));
  const changedNames = [...newRules.keys()].filter(
    (name) => oldRules.has(name) && oldRules.get(name) !== newRules.get(name),
  );
  const sameCount = newRules.size - addedNames.length - changedNames.length;
  return [
    ...addedNames.map((name) => `added ${name}\n${prefixLines('+', newRules.get(name)!)}`),
    ...removedNames.map((name) => `removed ${name}\n${prefixLines('-', oldRules.get(name)!)}`),
    ...changedNames.map((name) => `changed ${name}\n${lineDiff(oldRules.get(name)!, newRules.get(name)!)}`),
    `${addedNames.length} added, ${removedNames.length} removed, ${changedNames.length} changed; ${pluralize(sameCount, 'is', 'are')} the same\n`,
  ].join('');
}

function lineDiff(oldText: string, newText: string): string {
  return diffLines(oldText, newText)
    .map(({ added, removed, value }) => prefixLines(added ? '+' : removed ? '-' : ' ', value))
    .join('');
}

function prefixLines(mark: string, text: string): string {
  return text.replaceAll(/^(?=.)/gm, `  ${mark} `);
}
