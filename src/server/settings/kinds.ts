import { scheduleFault } from '../../jobs/job.js';

/** The kinds of settings, and how their values are parsed from YAML or from the text of a flag or variable. */

/** When a setting that can change while the server runs takes effect. */
export type LiveEffect = 'at once' | 'next connection' | 'next run';

interface Described {
  /**
   * Set when a new value takes effect without a restart, in every process and thread of the server: for the next
   * request (`at once`), for the next connection or TLS handshake, or for the next run of a job.
   */
  readonly live?: LiveEffect | undefined;
  /** A short text for `--help` and docs/configuration.md, in plain Markdown. */
  readonly help: string;
  /** A second, shorter name of the flag, without `--`. */
  readonly alias?: string;
}

export interface Bounded {
  readonly min: number;
  readonly max: number;
  /** Whether 0 means no limit. */
  readonly zeroIsUnlimited?: boolean;
}

interface Numeric extends Described, Bounded {
  readonly default: number;
}

export type SettingSpec =
  | (Numeric & { readonly kind: 'integer' })
  /** A number, or `auto`: the server chooses. */
  | (Described & { readonly kind: 'count'; readonly default: 'auto'; readonly min: number; readonly max: number })
  /** A number of bytes, also with a unit: `16 MiB`. */
  | (Numeric & { readonly kind: 'size' })
  /** A number of `unit`, which ends the setting's name, or a text with another unit: `15 m`, `2 h`, `30 d`. */
  | (Numeric & { readonly kind: 'duration'; readonly unit: 'seconds' | 'days' })
  | (Described & { readonly kind: 'boolean'; readonly default: boolean })
  | (Described & { readonly kind: 'choice'; readonly choices: readonly string[]; readonly default?: string })
  /** Permissions of a file: a text of three octal digits. */
  | (Described & { readonly kind: 'mode'; readonly default: string })
  /** Start times of a job: a cron pattern of five fields, or `off`. */
  | (Described & { readonly kind: 'schedule'; readonly default: string })
  /** A path, relative to the configuration file's folder or, in flags and variables, to the current folder. */
  | (Described & { readonly kind: 'path' })
  /** A path as above, or one of `words`. */
  | (Described & { readonly kind: 'output'; readonly words: readonly string[]; readonly default: string })
  | (Described & { readonly kind: 'paths'; readonly default: readonly string[] })
  /** A text that matches `pattern`. `form` describes the pattern in messages: `must be …`. */
  | (Described & { readonly kind: 'text'; readonly pattern: RegExp; readonly form: string })
  | (Described & { readonly kind: 'urls'; readonly default: readonly string[] });

export type SettingValue<S extends SettingSpec> = S extends { readonly kind: 'integer' | 'size' | 'duration' }
  ? number
  : S extends { readonly kind: 'count' }
    ? number | 'auto'
    : S extends { readonly kind: 'boolean' }
      ? boolean
      : S extends { readonly kind: 'choice'; readonly choices: readonly (infer C)[] }
        ? S extends { readonly default: string }
          ? C
          : C | undefined
        : S extends { readonly kind: 'mode' | 'schedule' | 'output' }
          ? string
          : S extends { readonly kind: 'path' | 'text' }
            ? string | undefined
            : readonly string[];

export type AnyValue = number | boolean | string | readonly string[] | undefined;

/** A value that is invalid for its setting. The message follows the setting's name: `must be …`. */
export class SettingFault extends Error {
  override readonly name = 'SettingFault';
}

function checkNumber(spec: SettingSpec & Bounded, value: number): number {
  if (!Number.isInteger(value)) throw new SettingFault('must be a whole number');
  if (value === 0 && spec.zeroIsUnlimited) return 0;
  if (value < spec.min || value > spec.max) {
    const zeroText = spec.zeroIsUnlimited ? ', or 0 for no limit' : '';
    throw new SettingFault(`must be ${formatValue(spec, spec.min)} to ${formatValue(spec, spec.max)}${zeroText}`);
  }
  return value;
}

function parseWithUnit(text: string, units: Readonly<Record<string, number>>, example: string): number {
  const match = /^(\d{1,15}(?:\.\d{1,3})?) *([A-Za-z]*)$/.exec(text.trim());
  const unit = match?.[2] ?? '';
  const factor = unit === '' ? 1 : Object.hasOwn(units, unit) ? units[unit] : undefined;
  if (!match || factor === undefined) throw new SettingFault(`must be a number, or one like ${example}`);
  return Number(match[1]) * factor;
}

const SIZES = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };
const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 };
const MAX_PORT = 65_535;

function parseDuration(spec: SettingSpec & { readonly kind: 'duration' }, raw: unknown): number {
  if (typeof raw === 'number') return raw;
  if (typeof raw !== 'string') throw new SettingFault('must be a number, or one like "30 d"');
  if (/^\d+$/.test(raw.trim())) return Number(raw);
  const seconds = parseWithUnit(raw, SECONDS, '"90 s", "15 m", "2 h" or "30 d"');
  const value = spec.unit === 'days' ? seconds / SECONDS.d : seconds;
  if (!Number.isInteger(value)) throw new SettingFault(`must be a whole number of ${spec.unit}`);
  return value;
}

/** Parses a list or a text. A text is split at `separator`; without a separator the text is the only element. */
function parseList(raw: unknown, separator: RegExp | undefined): readonly string[] {
  if (typeof raw === 'string') {
    const items = separator === undefined ? [raw] : raw.split(separator);
    return items.filter((part) => part !== '');
  }
  if (Array.isArray(raw) && raw.every((part) => typeof part === 'string' && part !== '')) return raw as string[];
  throw new SettingFault('must be a list of texts');
}

function checkListenUrl(text: string): string {
  const port = /^ldaps?:\/\/(?:\[[^\]]*\]|[^:/[\]]*):([^:/]+)\/?$/i.exec(text)?.[1];
  if (port !== undefined && !(/^\d+$/.test(port) && Number(port) <= MAX_PORT))
    throw new SettingFault(`has a bad port in "${text}": ${port}; the highest is ${MAX_PORT}`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^(?:ldaps?|ldapi):$/.test(url.protocol) || !text.includes('://')) {
    throw new SettingFault(
      `must be URLs like ldap://127.0.0.1:389, ldaps://[::]:636 or ldapi://%2frun%2frowan%2fldapi, not "${text}"`,
    );
  }
  if (url.protocol !== 'ldapi:' && (url.pathname.length > 1 || url.search !== '' || url.username !== '')) {
    throw new SettingFault(`must be URLs of a host and a port alone, not "${text}"`);
  }
  return text;
}

/**
 * Parses the value of a setting. `raw`: the value in YAML, or with `isText` the text of a flag or variable; `resolve`
 * makes paths absolute. Throws `SettingFault`.
 */
export function readValue(
  spec: SettingSpec,
  raw: unknown,
  isText: boolean,
  resolve: (path: string) => string,
): AnyValue {
  switch (spec.kind) {
    case 'integer':
      if (typeof raw === 'number') return checkNumber(spec, raw);
      if (isText && typeof raw === 'string' && /^-?\d{1,15}$/.test(raw.trim())) return checkNumber(spec, Number(raw));
      throw new SettingFault('must be a whole number');
    case 'count': {
      if (raw === spec.default) return raw;
      const count = isText && typeof raw === 'string' && /^\d{1,15}$/.test(raw.trim()) ? Number(raw) : raw;
      if (typeof count === 'number') return checkNumber(spec, count);
      throw new SettingFault(`must be a whole number, or ${spec.default}`);
    }
    case 'size':
      return checkNumber(
        spec,
        typeof raw === 'number' ? raw : parseWithUnit(String(raw), SIZES, '"64 KiB", "16 MiB" or "1 GiB"'),
      );
    case 'duration':
      return checkNumber(spec, parseDuration(spec, raw));
    case 'boolean':
      if (typeof raw === 'boolean') return raw;
      if (isText && /^(?:true|yes|on|1)$/i.test(String(raw))) return true;
      if (isText && /^(?:false|no|off|0)$/i.test(String(raw))) return false;
      throw new SettingFault('must be true or false');
    case 'choice':
      if (typeof raw === 'string' && spec.choices.includes(raw)) return raw;
      throw new SettingFault(`must be one of ${spec.choices.join(', ')}`);
    case 'mode': {
      const digits = /^(?:0o?)?([0-7]{3})$/.exec(String(raw))?.[1];
      if (digits !== undefined) return digits;
      throw new SettingFault('must be three octal digits, such as 660');
    }
    case 'schedule': {
      const fault = typeof raw === 'string' ? scheduleFault(raw) : 'it is no text';
      if (fault === undefined) return raw as string;
      throw new SettingFault(`must be a cron pattern of five fields, such as "30 3 * * *", or off: ${fault}`);
    }
    case 'output':
      if (typeof raw === 'string' && raw !== '') return spec.words.includes(raw) ? raw : resolve(raw);
      throw new SettingFault(`must be a path, or ${spec.words.join(' or ')}`);
    case 'path':
      if (typeof raw === 'string' && raw !== '') return resolve(raw);
      throw new SettingFault('must be a path');
    case 'text':
      if (typeof raw === 'string' && spec.pattern.test(raw)) return raw;
      throw new SettingFault(`must be ${spec.form}`);
    case 'paths':
      return parseList(raw, isText ? / *, */ : undefined).map(resolve);
    case 'urls': {
      const urls = parseList(raw, isText ? /[ ,]+/ : undefined).map(checkListenUrl);
      if (urls.length === 0) throw new SettingFault('must have at least one URL');
      return urls;
    }
  }
}

/** Formats a value for people, such that `readValue` parses the result. */
export function formatValue(spec: SettingSpec, value: AnyValue): string {
  if (value === undefined) return '';
  if (typeof value === 'object') return value.join(', ');
  if (spec.kind !== 'size' || typeof value !== 'number') return String(value);
  for (const unit of ['GiB', 'MiB', 'KiB'] as const) {
    if (value > 0 && value % SIZES[unit] === 0) return `${value / SIZES[unit]} ${unit}`;
  }
  return String(value);
}
