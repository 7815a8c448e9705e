import { RIGHT_GROUPS, RIGHTS, type Right } from './right.js';

/** The names of rights and of groups of rights in files and on command lines. */
export const RIGHT_WORDS: readonly string[] = [...RIGHTS, ...Object.keys(RIGHT_GROUPS)];

/** Returns the rights that a name stands for; undefined if the name is unknown. */
export function rightsOfWord(word: string): readonly Right[] | undefined {
  if (Object.hasOwn(RIGHT_GROUPS, word)) return RIGHT_GROUPS[word];
  const right = RIGHTS.find((one) => one === word);
  return right && [right];
}
