import { BoundedMap } from '../../cache/bounded-map.js';

const texts = new BoundedMap<string, Buffer>(256);

/** UTF-8 of a text that recurs soon: a writer, a time, a class. Shared buffer: callers must not change it. */
export function textBytes(text: string): Buffer {
  const known = texts.get(text);
  if (known) return known;
  const made = Buffer.from(text);
  texts.set(text, made);
  return made;
}
