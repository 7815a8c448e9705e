import { diffLines } from 'diff';
import { isMap, isSeq, parseDocument, stringify, type YAMLMap } from 'yaml';
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

const ORDER = ['name', 'who', 'policy', 'to', 'group', 'allow', 'deny'];

/** Returns the items of a valid rules file in canonical notation, by kind and name, such as `rule 'helpdesk'`. */
function ruleTexts(text: string): Map<string, string> {
  const textsByName = new Map<string, string>();
  const { contents } = parseDocument(text);
  if (!isMap(contents)) return textsByName;
  for (const [key, what] of [
    ['rules', 'rule'],
    ['limits', 'limit'],
    ['passwordPolicies', 'password policy'],
  ] as const) {
    const list = contents.get(key);
    if (!isSeq(list)) continue;
    list.items.forEach((ruleNode, i) => {
      if (isMap(ruleNode))
        textsByName.set(`${what} '${ruleNode.get('name') ?? `${what} ${i + 1}`}'`, canonicalText(ruleNode));
    });
  }
  return textsByName;
}

function canonicalText(ruleNode: YAMLMap): string {
  const { ...keys } = ruleNode.toJSON() as Record<string, unknown>;
  const orderedEntries = ORDER.filter((key) => key in keys).map((key) => [key, keys[key]]);
  const otherEntries = Object.entries(keys).filter(([key]) => !ORDER.includes(key));
  return stringify(Object.fromEntries([...orderedEntries, ...otherEntries]), { lineWidth: 0 });
}
