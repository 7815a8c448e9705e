import type { Filter } from '../../src/ldap/ldap-types.js';
import type { EntryAttribute } from '../../src/partition/model/directory-types.js';
import type { Schema } from '../../src/schema/index.js';

/** An entry as a plain object. */
export interface PlainEntry {
  readonly dn: string;
  readonly attributes: readonly EntryAttribute[];
}

/** A filter term by term over every value, as RFC 4511 §4.5.1.7 reads; undefined is neither true nor false. */
export function naive(
  schema: Schema,
  filter: Filter,
  entry: PlainEntry,
  hidden: readonly string[],
): boolean | undefined {
  switch (filter.type) {
    case 'not': {
      const inner = naive(schema, filter.filter, entry, hidden);
      return inner === undefined ? undefined : !inner;
    }
    case 'and':
    case 'or': {
      const parts = filter.filters.map((part) => naive(schema, part, entry, hidden));
      if (parts.includes(filter.type === 'or')) return filter.type === 'or';
      return parts.includes(undefined) ? undefined : filter.type === 'and';
    }
    case 'extensible':
      throw new Error('not evaluated here');
    default:
      return term(schema, filter, entry, hidden);
  }
}

function term(
  schema: Schema,
  filter: Exclude<Filter, { type: 'and' | 'or' | 'not' | 'extensible' }>,
  entry: PlainEntry,
  hidden: readonly string[],
): boolean | undefined {
  const wanted = schema.describe(filter.attribute);
  if (!wanted || hidden.includes(wanted.type.name)) return undefined;
  const values = entry.attributes
    .filter((a) => schema.matches(wanted, schema.requireDescription(a.description)) && !hidden.includes(a.type.name))
    .flatMap((a) => a.values);
  const test = valueTest(filter, wanted.type);
  return test && values.some(test);
}

function valueTest(
  filter: Exclude<Filter, { type: 'and' | 'or' | 'not' | 'extensible' }>,
  type: { equality: Rule; ordering: Rule; substrings: Rule },
): ((value: Buffer) => boolean) | undefined {
  switch (filter.type) {
    case 'present':
      return () => true;
    case 'equal':
    case 'approx': {
      const form = type.equality?.normalizeAssertion(filter.value);
      return form && ((value) => type.equality!.normalize(value)?.equals(form) === true);
    }
    case 'greaterOrEqual':
    case 'lessOrEqual': {
      const form = type.ordering?.normalizeAssertion(filter.value);
      const sign = filter.type === 'greaterOrEqual' ? 1 : -1;
      return (
        form &&
        ((value) =>
          sign * Buffer.compare(type.ordering!.normalize(value) ?? form, form) >= 0 &&
          type.ordering!.normalize(value) !== undefined)
      );
    }
    case 'substring': {
      const rule = type.substrings;
      if (!rule) return undefined;
      const part = (bytes: Buffer, where: 'initial' | 'any' | 'final') => {
        const text = rule.normalizePart!(bytes, where)?.toString('latin1');
        return text && padded(text, where).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      };
      const initial = filter.initial ? part(filter.initial, 'initial') : '';
      const final = filter.final ? part(filter.final, 'final') : '';
      const any = filter.any.map((bytes) => part(bytes, 'any'));
      if (initial === undefined || final === undefined || any.includes(undefined)) return undefined;
      const pattern = new RegExp(`^${[initial, ...any, final].join('[^]*')}$`);
      return (value) => {
        const form = rule.normalize(value)?.toString('latin1');
        return form !== undefined && pattern.test(padded(form, 'whole'));
      };
    }
  }
}

/** As RFC 4518 §2.6.1 has the spaces of text. Forms without insignificant spaces match alike with them. */
function padded(form: string, where: 'whole' | 'initial' | 'any' | 'final'): string {
  if (/^ *$/.test(form)) return where === 'whole' ? '  ' : ' ';
  const inner = form.replace(/(?<=[^ ]) (?=[^ ])/g, '  ');
  const [start, end] = [/whole|initial/.test(where) ? ' ' : '', /whole|final/.test(where) ? ' ' : ''];
  return `${start}${inner}${end}`;
}

type Rule =
  | {
      normalize(value: Buffer): Buffer | undefined;
      normalizeAssertion(assertion: Buffer): Buffer | undefined;
      normalizePart?(part: Buffer, where: 'initial' | 'any' | 'final'): Buffer | undefined;
    }
  | undefined;
