import type { LdifOptions, LdifRecord } from './ldif-types.js';
import { LdifParser } from './parser.js';

/**
 * The records of an LDIF stream, an array for each chunk that completes any. The chunks must be fresh buffers, as those
 * of `fs.createReadStream` and of a pipe are; 64 to 256 KiB are read fastest.
 */
export async function* readLdif(
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
  options: LdifOptions = {},
): AsyncGenerator<LdifRecord[], void, void> {
  const parser = new LdifParser(options);
  for await (const chunk of source) {
    const records = parser.push(chunk);
    if (records.length > 0) yield records;
  }
  const last = parser.end();
  if (last.length > 0) yield last;
}
