import { isUtf8 } from 'node:buffer';
import type { Filter } from './ldap-types.js';

export interface FormatOptions {
  /** Values of more bytes are truncated and end in `…`. Default: no truncation. */
  readonly maxValue?: number;
  /** A text of more characters than about this number is truncated and ends in `…`. Default: no truncation. */
  readonly maxText?: number;
}

/**
 * Returns the text of a filter. Escapes the characters of RFC 4515, and also control, format and invalid characters, so
 * that the text may be logged. `parseFilter` accepts the text, unless it was truncated or attribute names contain
 * characters that are not allowed in names.
 */
export function formatFilter(filter: Filter, options: FormatOptions = {}): string {
  const formatter = new Formatter(options.maxValue ?? Infinity, options.maxText ?? Infinity);
  formatter.formatFilter(filter);
  return formatter.text;
}

class Formatter {
  text = '';
  #isTruncated = false;
  readonly #maxValue: number;
  readonly #maxText: number;

  constructor(maxValue: number, maxText: number) {
    this.#maxValue = maxValue;
    this.#maxText = maxText;
  }

  formatFilter(filter: Filter): void {
    if (this.text.length >= this.#maxText) {
      if (!this.#isTruncated) this.text += '…';
      this.#isTruncated = true;
      return;
    }
    this.text += '(';
    this.#formatComponent(filter);
    this.text += ')';
  }

  #formatComponent(filter: Filter): void {
    switch (filter.type) {
      case 'and':
      case 'or':
        this.text += filter.type === 'and' ? '&' : '|';
        for (const subfilter of filter.filters) this.formatFilter(subfilter);
        break;
      case 'not':
        this.text += '!';
        this.formatFilter(filter.filter);
        break;
      case 'present':
        this.text += `${this.#escapeName(filter.attribute)}=*`;
        break;
      case 'substring': {
        const valueTexts = [filter.initial, ...filter.any, filter.final].map((part) =>
          part ? this.#escapeValue(part) : '',
        );
        this.text += `${this.#escapeName(filter.attribute)}=${valueTexts.join('*')}`;
        break;
      }
      case 'extensible': {
        const { attribute = '', dnAttributes, rule } = filter;
        const leftSide = `${this.#escapeName(attribute)}${dnAttributes ? ':dn' : ''}${rule === undefined ? '' : `:${this.#escapeName(rule)}`}`;
        this.text += `${leftSide}:=${this.#escapeValue(filter.value)}`;
        break;
      }
      default:
        this.text += `${this.#escapeName(filter.attribute)}${operators[filter.type]}${this.#escapeValue(filter.value)}`;
    }
  }

  #escapeName(name: string): string {
    return PLAIN.test(name) && name.length <= this.#maxValue ? name : this.#escapeValue(Buffer.from(name));
  }

  #escapeValue(value: Buffer): string {
    if (value.length <= this.#maxValue) return escapeValue(value);
    let end = this.#maxValue;
    while (end > 0 && (value[end]! & 0xc0) === 0x80) end--;
    return `${escapeValue(value.subarray(0, end))}…`;
  }
}

const operators = { equal: '=', greaterOrEqual: '>=', lessOrEqual: '<=', approx: '~=' } as const;

/** Text without characters to escape. */
const PLAIN = /^[ -'+-[\]-~]*$/;

/** Returns an assertion value in the notation of RFC 4515 §3. */
export function escapeValue(value: Buffer): string {
  const text = value.toString('latin1');
  if (PLAIN.test(text)) return text;
  if (isUtf8(value)) return escapeText(value.toString('utf8'));
  return text.replace(/[^ -~]|[()*\\]/g, escapeBytes);
}

/** Escapes characters that filters (RFC 4515 §3) or logs must not contain, such as control characters. */
export function escapeText(text: string): string {
  return text.replace(/[()*\\\p{C}\p{Zl}\p{Zp}]/gu, (found) => escapeBytes(Buffer.from(found).toString('latin1')));
}

/** Escapes a string of single bytes (latin1). */
function escapeBytes(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('hex').replace(/../g, '\\$&');
}
