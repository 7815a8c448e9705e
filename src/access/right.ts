/**
 * What rules give and deny (docs/access.md). Of an entry: `see`, `remove`, `rename`, `moveOut`, `proxy`; of what is
 * right below it: `create`, `moveIn`; of its attributes: `read`, `search`, `compare`, `add`, `delete`, `replace`;
 * `manage` of both.
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

/** Words of a rule that stand for several rights. */
export const SHORT: Readonly<Record<string, readonly Right[]>> = {
  view: ['see', 'read', 'search', 'compare'],
  write: ['add', 'delete', 'replace'],
};

/** Several rights: one bit each. */
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

/** What can be had of an entry itself, of the place right below it, and of an attribute. */
export const OF_ENTRY = rightSet('see', 'remove', 'rename', 'moveOut', 'proxy', 'manage');
export const OF_CHILDREN = rightSet('create', 'moveIn');
export const OF_ATTRIBUTE = rightSet('read', 'search', 'compare', 'add', 'delete', 'replace', 'manage');
