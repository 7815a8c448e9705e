import { BoundedMap } from '../../cache/bounded-map.js';

const texts = new BoundedMap<string, Buffer>(256);

/** Returns the UTF-8 of a text that recurs, such as a time. Shared buffer; callers must not change it. */
export function textBytes(text: string): Buffer {
  const cached = texts.get(text);
  if (cached) return cached;
  const bytes = Buffer.from(text);
  texts.set(text, bytes);
  return bytes;
}
