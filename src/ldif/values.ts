import { isUtf8 } from 'node:buffer';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { decodeBase64 } from '../bytes/base64.js';
import { LdifFault, type LdifOptions } from './ldif-types.js';
import type { LineReader } from './lines.js';

const SPACE = 0x20;
const COLON = 0x3a;
const LESS = 0x3c;

export const MAX_RECORD_BYTES = 256 * 1024 * 1024;

/**
 * Returns the value after the colon at `lines.colonOffset` (RFC 2849, value-spec): `: text`, `:: base64` or `:< URL`.
 * The result is a view of the line where possible. Also accepts bytes over 127, which SAFE-STRING of the RFC excludes,
 * since much existing LDIF has them.
 */
export function readValue(lines: LineReader, options: LdifOptions): Buffer {
  const { bytes, stop, longLine } = lines;
  if (longLine) {
    if (typeof longLine.value === 'string') throw new LdifFault(lines.number, longLine.value);
    return longLine.value;
  }
  let offset = lines.colonOffset + 1;
  const marker = bytes[offset];
  if (offset < stop && (marker === COLON || marker === LESS)) offset++;
  while (offset < stop && bytes[offset] === SPACE) offset++;
  if (marker === COLON) return readBase64Value(lines, offset);
  if (marker === LESS && lines.colonOffset + 1 < stop) return readUrlValue(lines, offset, options);
  return bytes.subarray(offset, stop);
}

function readBase64Value(lines: LineReader, start: number): Buffer {
  const value = decodeBase64(lines.bytes, Math.min(start, lines.stop), lines.stop);
  if (typeof value === 'string') throw new LdifFault(lines.number, value);
  return value;
}

function readUrlValue(lines: LineReader, start: number, options: LdifOptions): Buffer {
  const text = lines.bytes.toString('utf8', start, lines.stop);
  if (!options.allowUrls)
    throw new LdifFault(lines.number, 'a value from a URL (":<"); these are refused unless allowed (--allow-urls)');
  if (!URL.canParse(text)) throw new LdifFault(lines.number, 'the text after ":<" is not a URL');
  const url = new URL(text);
  if (url.protocol !== 'file:') throw new LdifFault(lines.number, `a ${url.protocol} URL; only file: can be read`);
  if (!options.allowUrls(url)) throw new LdifFault(lines.number, 'the URL is not among those allowed');
  return readFile(url, lines.number, options.maxRecordBytes ?? MAX_RECORD_BYTES);
}

function readFile(url: URL, line: number, maxBytes: number): Buffer {
  let file: number | undefined;
  try {
    file = openSync(fileURLToPath(url), 'r');
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new LdifFault(line, 'the URL names no regular file');
    if (stat.size > maxBytes)
      throw new LdifFault(line, `the URL's file has ${stat.size} bytes; ${maxBytes} is the most`);
    return readFileSync(file);
  } catch (error) {
    if (error instanceof LdifFault) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'error';
    throw new LdifFault(line, `the URL's file cannot be read (${code})`);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

const REPLACEMENT = '\ufffd';

/** Returns a value that must be text, such as a DN, an RDN or a keyword. */
export function readText(lines: LineReader, options: LdifOptions): string {
  return readAsciiText(lines) ?? readDecodedText(lines, options);
}

/** Returns ASCII text; undefined for any other value. Allocates no view, since most names are ASCII. */
function readAsciiText({ bytes, colonOffset, stop }: LineReader): string | undefined {
  let offset = colonOffset + 1;
  while (offset < stop && bytes[offset] === SPACE) offset++;
  if (bytes[colonOffset + 1] === COLON || bytes[colonOffset + 1] === LESS) return undefined;
  for (let i = offset; i < stop; i++) if (bytes[i]! >= 0x80) return undefined;
  return bytes.toString('latin1', offset, stop);
}

function readDecodedText(lines: LineReader, options: LdifOptions): string {
  const { bytes, colonOffset, stop, number } = lines;
  // The value of a URL is the content of a file. An error message about a malformed name would reveal it.
  if (bytes[colonOffset + 1] === LESS && colonOffset + 1 < stop)
    throw new LdifFault(number, 'only the value of an attribute can come from a URL (":<")');
  const value = readValue(lines, options);
  const text = value.toString('utf8');
  if (text.includes(REPLACEMENT) && !isUtf8(value)) throw new LdifFault(lines.number, 'the value is not UTF-8');
  return text;
}
