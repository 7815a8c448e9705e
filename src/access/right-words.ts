import { RIGHTS, type Right, SHORT } from './right.js';

/** The words for rights in files and on command lines. */
export const RIGHT_WORDS: readonly string[] = [...RIGHTS, ...Object.keys(SHORT)];

/** The rights that a word stands for; undefined if the word is not a right. */
export function rightsNamed(word: string): readonly Right[] | undefined {
  if (Object.hasOwn(SHORT, word)) return SHORT[word];
  const right = RIGHTS.find((one) => one === word);
  return right && [right];
}
