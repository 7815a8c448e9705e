import { type LdifOptions, LdifParser, type LdifRecord } from '../../src/ldif/index.js';

/** Parses text given in chunks of `size` bytes, or whole. */
export function parse(
  input: string | Buffer,
  options: LdifOptions = {},
  size = Number.POSITIVE_INFINITY,
): LdifRecord[] {
  const bytes = Buffer.from(input);
  const parser = new LdifParser(options);
  const records: LdifRecord[] = [];
  for (let at = 0; at < bytes.length; at += size)
    records.push(...parser.push(Buffer.from(bytes.subarray(at, at + size))));
  return [...records, ...parser.end()];
}

/** What is said of a value behind `::`. */
export function notBase64(position: number): string {
  return `character ${position} of the text behind "::" is not base64; encode it, or write the text behind one ":"`;
}

export function badLength(length: number): string {
  return `the base64 text behind "::" has ${length} characters; the length must be a multiple of 4: add what is missing`;
}

/** The record in a form that reads well in a test: values as latin1 text, no position. */
export function plain(record: LdifRecord): unknown {
  const { line: _line, offset: _offset, text: _text, detachedValues: _apart, ...body } = record;
  return JSON.parse(
    JSON.stringify(body, (_key, value) => (isBuffer(value) ? Buffer.from(value.data).toString('latin1') : value)),
  );
}

/** All of it, for comparing two ways of parsing. */
export function whole(record: LdifRecord): unknown {
  return {
    ...(plain(record) as object),
    line: record.line,
    offset: record.offset,
    text: record.text.toString('latin1'),
  };
}

function isBuffer(value: unknown): value is { data: number[] } {
  return (
    typeof value === 'object' && value !== null && (value as { type?: unknown }).type === 'Buffer' && 'data' in value
  );
}

export interface Random {
  readonly seed: number;
  /** A whole number from 0 to below `n`. */
  below(n: number): number;
}

export function random(): Random {
  const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 1e9);
  let state = seed | 0;
  return {
    seed,
    below(n) {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) % n;
    },
  };
}
