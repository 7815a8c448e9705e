import { isMap, isSeq, parseDocument, stringify, type YAMLMap } from 'yaml';

const ORDER = ['name', 'who', 'policy', 'to', 'group', 'allow', 'deny'];

/** Returns the items of a valid rules file in canonical notation, by kind and name, such as `rule 'helpdesk'`. */
export function ruleTexts(text: string): Map<string, string> {
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
