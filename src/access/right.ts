/**
 * The rights that rules allow and deny (docs/access.md). On an entry: `see`, `remove`, `rename`, `moveOut`, `proxy`. On
 * the place right below an entry: `create`, `moveIn`. On attributes: `read`, `search`, `compare`, `add`, `delete`,
 * `replace`. On entries and attributes: `manage`.
 */
export const RIGHTS = [
  'see',
  'read',
  'search',
  'compare',
  'add',
  'delete',
  'replace',
  'create',
  'remove',
  'rename',
  'moveIn',
  'moveOut',
  'proxy',
  'manage',
] as const;

export type Right = (typeof RIGHTS)[number];

/** Names that stand for several rights. */
export const RIGHT_GROUPS: Readonly<Record<string, readonly Right[]>> = {
  view: ['see', 'read', 'search', 'compare'],
  write: ['add', 'delete', 'replace'],
};

/** A set of rights, one bit each. */
export type RightSet = number;

export const NO_RIGHTS: RightSet = 0;

export function rightSet(...rights: readonly Right[]): RightSet {
  let set = NO_RIGHTS;
  for (const right of rights) set |= 1 << RIGHTS.indexOf(right);
  return set;
}

export function rightsIn(set: RightSet): Right[] {
  return RIGHTS.filter((_, i) => set & (1 << i));
}

/** The rights that apply to an entry, to the place right below it, and to attributes. */
export const ENTRY_RIGHTS = rightSet('see', 'remove', 'rename', 'moveOut', 'proxy', 'manage');
export const CHILDREN_RIGHTS = rightSet('create', 'moveIn');
export const ATTRIBUTE_RIGHTS = rightSet('read', 'search', 'compare', 'add', 'delete', 'replace', 'manage');

/** The names of rights and of groups of rights in files and on command lines. */
export const RIGHT_WORDS: readonly string[] = [...RIGHTS, ...Object.keys(RIGHT_GROUPS)];

/** Returns the rights that a name stands for; undefined if the name is unknown. */
export function rightsOfWord(word: string): readonly Right[] | undefined {
  if (Object.hasOwn(RIGHT_GROUPS, word)) return RIGHT_GROUPS[word];
  const right = RIGHTS.find((one) => one === word);
  return right && [right];
}
