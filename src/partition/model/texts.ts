import { BoundedMap } from '../../cache/bounded-map.js';

const texts = new BoundedMap<string, Buffer>(256);

/**
 * Returns the UTF-8 bytes of a text that is likely to recur soon: a DN of a writer, a time, a class. The buffer is
 * shared: callers must not change it.
 */
export function textBytes(text: string): Buffer {
  const known = texts.get(text);
  if (known) return known;
  const made = Buffer.from(text);
  texts.set(text, made);
  return made;
}
