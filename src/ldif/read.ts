import type { LdifOptions, LdifRecord } from './ldif-types.js';
import { LdifParser } from './parser.js';

/**
 * Yields an array of records for each chunk of an LDIF stream that completes at least one record. The chunks must be
 * new buffers, as from `fs.createReadStream` or a pipe. Chunks of 64 to 256 KiB are read fastest.
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
  const lastRecords = parser.end();
  if (lastRecords.length > 0) yield lastRecords;
}
