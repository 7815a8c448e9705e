/** Longest text of a field, in characters. */
const MAX_TEXT = 4096;
/** Longest form of a character in JSON, in characters. */
const MAX_ESCAPE = 6;
/** Most bytes of a UTF-16 unit in UTF-8. */
const MAX_UTF8 = 3;
/** Characters that JSON allows unescaped although terminals or readers of lines treat them specially. */
const UNSAFE = /[\u007f-\u009f\u2028\u2029\p{Bidi_Control}]/gu;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
const TILDE = 0x7e;
const ZERO = 0x30;
const MAX_INT = 2 ** 31 - 1;

/**
 * Writes a line of JSON as UTF-8 bytes. Writing ASCII byte by byte takes a third of the time of joining texts and
 * encoding the line (`npm run bench -- logs`).
 */
export class JsonLine {
  #bytes = Buffer.allocUnsafeSlow(4096);
  #length = 0;

  /** The bytes since `begin`, valid until the next change. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Begins a line with encoded text. */
  begin(head: Uint8Array): void {
    this.#length = 0;
    this.encoded(head);
  }

  encoded(text: Uint8Array): void {
    this.#reserve(text.length);
    this.#bytes.set(text, this.#length);
    this.#length += text.length;
  }

  /** Appends ASCII text unchanged. */
  ascii(text: string): void {
    this.#reserve(text.length);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < text.length; i++) bytes[at++] = text.charCodeAt(i);
    this.#length = at;
  }

  /** Appends `,"key":"value"`; nothing for an undefined value. A long value is cut and ends with the mark `…`. */
  text(key: string, value: string | undefined): void {
    if (value === undefined) return;
    this.#key(key);
    this.#quote(value);
  }

  /** Appends `,"key":["value", …]`; nothing for undefined values. A long list is cut and ends with the item `…`. */
  list(key: string, values: readonly string[] | undefined): void {
    if (values === undefined) return;
    this.#key(key);
    this.ascii('[');
    const start = this.#length;
    for (const value of values) {
      if (this.#length > start) this.ascii(',');
      const itemStart = this.#length;
      this.#quote(value);
      if (this.#length - start <= MAX_TEXT) continue;
      this.#length = itemStart;
      this.#quote('…');
      break;
    }
    this.ascii(']');
  }

  /** Appends `,"key":value` for an integer from 0. */
  integer(key: string, value: number): void {
    this.#key(key);
    if (value > MAX_INT) this.ascii(String(value));
    else this.#digits(value, 1);
  }

  /** Appends `,"key":value`, in seconds to the microsecond. */
  seconds(key: string, milliseconds: number): void {
    this.#key(key);
    const microseconds = Math.round(milliseconds * 1000);
    if (microseconds > MAX_INT) {
      this.ascii((microseconds / 1e6).toFixed(6));
      return;
    }
    const fraction = microseconds % 1e6;
    this.#digits((microseconds - fraction) / 1e6, 1);
    this.ascii('.');
    this.#digits(fraction, 6);
  }

  #key(key: string): void {
    this.ascii(',"');
    this.ascii(key);
    this.ascii('":');
  }

  /** Appends an integer of 31 bits with at least `minCount` digits. */
  #digits(value: number, minCount: number): void {
    let count = minCount;
    for (let bound = 10 ** minCount; bound <= value; bound *= 10) count++;
    this.#reserve(count);
    const bytes = this.#bytes;
    let rest = value | 0;
    for (let at = this.#length + count - 1; at >= this.#length; at--) {
      const quotient = (rest / 10) | 0;
      bytes[at] = ZERO + rest - quotient * 10;
      rest = quotient;
    }
    this.#length += count;
  }

  #quote(value: string): void {
    if (value.length <= MAX_TEXT && this.#quotePlain(value)) return;
    const json = quote(value);
    this.#reserve(json.length * MAX_UTF8);
    this.#length += this.#bytes.write(json, this.#length);
  }

  /** Returns false, and appends nothing, when the text has a character that is not the same in JSON or not ASCII. */
  #quotePlain(value: string): boolean {
    this.#reserve(value.length * MAX_UTF8 + 2);
    const bytes = this.#bytes;
    let at = this.#length;
    bytes[at++] = QUOTE;
    const end = at + bytes.write(value, at);
    for (; at < end; at++) {
      const code = bytes[at]!;
      if (code < SPACE || code > TILDE || code === QUOTE || code === BACKSLASH) return false;
    }
    bytes[at++] = QUOTE;
    this.#length = at;
    return true;
  }

  #reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#bytes.length) return;
    const bytes = Buffer.allocUnsafeSlow(2 * needed);
    bytes.set(this.bytes);
    this.#bytes = bytes;
  }
}

/** Returns the text as JSON in one line, in little more than `MAX_TEXT` characters. */
function quote(value: string): string {
  const json = toJson(value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value);
  return json.length > MAX_TEXT + MAX_ESCAPE ? toJson(`${value.slice(0, MAX_TEXT / MAX_ESCAPE)}…`) : json;
}

function toJson(value: string): string {
  return JSON.stringify(value).replace(UNSAFE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
