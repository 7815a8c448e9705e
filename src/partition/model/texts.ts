import { BoundedMap } from '../../cache/bounded-map.js';

const texts = new BoundedMap<string, Buffer>(256);

/** UTF-8 of a text that mostly comes again soon: who writes, the second, a class. Shared: not to be changed. */
export function textBytes(text: string): Buffer {
  const known = texts.get(text);
  if (known) return known;
  const made = Buffer.from(text);
  texts.set(text, made);
  return made;
}
