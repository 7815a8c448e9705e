/** Shorter words occur in many passwords by chance. */
const MIN_CHARACTERS = 4;

/** Returns the words of four characters or more in the names of a person. */
export function wordsOfNames(names: readonly string[]): string[] {
  return names.flatMap((name) => name.split(/[^\p{L}\p{N}]+/u)).filter((word) => [...word].length >= MIN_CHARACTERS);
}
