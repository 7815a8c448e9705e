import { ZxcvbnFactory } from '@zxcvbn-ts/core';
import { adjacencyGraphs, dictionary } from '@zxcvbn-ts/language-common';

/** Characters after this number are ignored, because the time grows with the square of the length. */
const MAX_CHARACTERS = 100;

const estimator = new ZxcvbnFactory({ dictionary, graphs: adjacencyGraphs, maxLength: MAX_CHARACTERS });

/** Texts for users, by the warnings of the estimator. */
const REASONS: Readonly<Record<string, string>> = {
  straightRow: 'it is a row of keys',
  keyPattern: 'it is a pattern on the keyboard',
  simpleRepeat: 'it repeats a letter',
  extendedRepeat: 'it repeats the same letters',
  sequences: 'it is a sequence such as abc or 6543',
  recentYears: 'it is a year',
  dates: 'it is a date',
  topTen: 'it is one of the ten most used',
  topHundred: 'it is one of the hundred most used',
  common: 'it is used by many',
  similarToCommon: 'it is like one that is used by many',
  wordByItself: 'it is a single word',
  namesByThemselves: 'it is a name',
  commonNames: 'it is a name',
  userInputs: 'it is made of names of its entry',
};

/** Returns the reason to refuse a password whose strength (0 to 4) is below `minScore`; otherwise undefined. */
export function weaknessReason(clear: string, names: readonly string[], minScore: number): string | undefined {
  const { score, feedback } = estimator.check(clear, [...names, ...wordsOfNames(names)]);
  if (score >= minScore) return undefined;
  const reason = feedback.warning === null ? undefined : REASONS[feedback.warning];
  const explanation = reason === undefined ? '' : `: ${reason}`;
  return `the password is too easy to guess (${score} of 4, ${minScore} are needed)${explanation}; add words that do not belong together`;
}

/** Shorter words occur in many passwords by chance. */
const MIN_CHARACTERS = 4;

/** Returns the words of four characters or more in the names of a person. */
export function wordsOfNames(names: readonly string[]): string[] {
  return names.flatMap((name) => name.split(/[^\p{L}\p{N}]+/u)).filter((word) => [...word].length >= MIN_CHARACTERS);
}
