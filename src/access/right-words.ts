import { RIGHT_GROUPS, RIGHTS, type Right } from './right.js';

/** The words for rights in files and on command lines. */
export const RIGHT_WORDS: readonly string[] = [...RIGHTS, ...Object.keys(RIGHT_GROUPS)];

/** The rights that a word stands for; undefined if the word is not a right. */
export function rightsOfWord(word: string): readonly Right[] | undefined {
  if (Object.hasOwn(RIGHT_GROUPS, word)) return RIGHT_GROUPS[word];
  const right = RIGHTS.find((one) => one === word);
  return right && [right];
}
