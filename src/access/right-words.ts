import { RIGHTS, type Right, SHORT } from './right.js';

/** The words of files and command lines for rights. */
export const RIGHT_WORDS: readonly string[] = [...RIGHTS, ...Object.keys(SHORT)];

/** What a word stands for; undefined where it is none. */
export function rightsNamed(word: string): readonly Right[] | undefined {
  if (Object.hasOwn(SHORT, word)) return SHORT[word];
  const right = RIGHTS.find((one) => one === word);
  return right && [right];
}
