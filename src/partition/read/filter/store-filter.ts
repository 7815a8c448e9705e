import type { AttributeType } from '../../../schema/schema-types.js';
import type { StoreFilter } from '../../../store/contract.js';
import { cutMarkQualifier, cutNorm, normQualifier, oidBytes, prefixEnd, Q, TREE } from '../../model/tables.js';
import { MAX_NORM } from '../../model/thresholds.js';
import type { CompiledFilter, Lookup, Term } from './compiled-filter.js';

/** A filter that the store evaluates on tree rows; `all` or `none` if all rows or no row pass. */
export type RowSelection = StoreFilter | 'all' | 'none';

/**
 * Translates a filter to a store filter on normAttributes. It passes every entry for which the filter may be True, and
 * possibly more. For NOT, `mayBeFalse` does the same for entries for which a filter may be False. An Undefined term
 * passes neither.
 */
export function mayBeTrue(filter: CompiledFilter): RowSelection {
  switch (filter.kind) {
    case 'undefined':
      return 'none';
    case 'not':
      return mayBeFalse(filter.part);
    case 'and':
      return intersection(filter.parts.map(mayBeTrue));
    case 'or':
      return union(filter.parts.map(mayBeTrue));
    case 'term':
      return filter.lookup && !filter.moreIds
        ? union([termMayBeTrue(filter.types, filter.lookup), ...chainFilters(filter)])
        : 'all';
  }
}

function mayBeFalse(filter: CompiledFilter): RowSelection {
  switch (filter.kind) {
    case 'undefined':
      return 'none';
    case 'not':
      return mayBeTrue(filter.part);
    case 'and':
      return union(filter.parts.map(mayBeFalse));
    case 'or':
      return intersection(filter.parts.map(mayBeFalse));
    case 'term':
      return isDecidedByStore(filter) ? negate(mayBeTrue(filter)) : 'all';
  }
}

/** Returns filters for rows for which the term may be True because of other entries. */
function chainFilters({ chain }: Term): StoreFilter[] {
  return chain?.type.subtypes.map((type) => termFilter(type, { kind: 'presence' })) ?? [];
}

function isDecidedByStore({ isExact, lookup, chain, moreIds, types }: Term): boolean {
  return isExact && !chain && !moreIds && lookup !== undefined && !hasTooManyColumns(types, lookup);
}

/** The most columns in one OR. With more values, every row that has a value of the types passes. */
const MAX_COLUMNS = 20_000;

function hasTooManyColumns(types: readonly AttributeType[], lookup: Lookup): boolean {
  return lookup.kind === 'anyOf' && types.length * lookup.norms.length > MAX_COLUMNS;
}

function termMayBeTrue(types: readonly AttributeType[], lookup: Lookup): RowSelection {
  if (lookup.kind !== 'anyOf') return union(types.map((type) => termFilter(type, lookup)));
  if (hasTooManyColumns(types, lookup)) return union(types.map((type) => termFilter(type, { kind: 'presence' })));
  return union(types.flatMap((type) => lookup.norms.map((norm) => termFilter(type, { kind: 'equality', norm }))));
}

function intersection(selections: readonly RowSelection[]): RowSelection {
  if (selections.includes('none')) return 'none';
  const filters = selections.filter((p) => p !== 'all') as StoreFilter[];
  return filters.length < 2 ? (filters[0] ?? 'all') : { op: 'and', of: filters };
}

function union(selections: readonly RowSelection[]): RowSelection {
  if (selections.includes('all')) return 'all';
  const filters = selections.filter((p) => p !== 'none') as StoreFilter[];
  return filters.length < 2 ? (filters[0] ?? 'none') : { op: 'or', of: filters };
}

function negate(filter: RowSelection): RowSelection {
  if (filter === 'all') return 'none';
  if (filter === 'none') return 'all';
  return { op: 'not', of: filter };
}

const family = TREE.normAttributes;

function termFilter(type: AttributeType, lookup: Exclude<Lookup, { kind: 'anyOf' }>): StoreFilter {
  const oid = oidBytes(type.oid);
  if (lookup.kind === 'presence') return { op: 'hasColumn', family, qualifier: oid };
  if (lookup.kind === 'equality')
    return { op: 'hasColumn', family, qualifier: normQualifier(oid, cutNorm(lookup.norm)) };
  const prefix = Buffer.concat([oid, EQUALS]);
  if (lookup.kind === 'pattern') return patternFilter(type, prefix, lookup);
  const { from, to } = boundRange(prefix, lookup);
  return { op: 'anyColumn', family, match: { from, to: to ?? AFTER_ALL } };
}

const EQUALS = Buffer.from('=');
const AFTER_FORM = Buffer.from([1]);
const AFTER_ALL = Buffer.alloc(1, 0xff);

/**
 * Returns the range of the keys that begin with `prefix` and have a normal form >= (`from`) or <= (`upTo`) the bound.
 * If the bound is cut, the range is wider.
 */
export function boundRange(
  prefix: Buffer,
  lookup: { readonly kind: 'from' | 'upTo'; readonly norm: Buffer },
): { from: Buffer; to: Buffer | undefined } {
  const bound = Buffer.concat([prefix, lookup.norm.subarray(0, MAX_NORM)]);
  if (lookup.kind === 'from') return { from: bound, to: prefixEnd(prefix) };
  // In an index key a zero byte and the entryUUID follow the normal form.
  const to = lookup.norm.length > MAX_NORM ? prefixEnd(bound) : Buffer.concat([bound, AFTER_FORM]);
  return { from: prefix, to };
}

function patternFilter(type: AttributeType, prefix: Buffer, lookup: Extract<Lookup, { kind: 'pattern' }>): StoreFilter {
  const { any, final } = lookup;
  const initial = lookup.initial?.subarray(0, MAX_NORM);
  if (any.length === 0 && !final)
    return { op: 'anyColumn', family, match: { prefix: Buffer.concat([prefix, initial ?? Buffer.alloc(0)]) } };
  const pattern: StoreFilter = { op: 'anyColumn', family, match: { prefix, initial, any, final } };
  // Keys have only the first 512 bytes of a normal form, so entries with a cut value pass.
  return { op: 'or', of: [pattern, { op: 'hasColumn', family, qualifier: cutMarkQualifier(type.oid) }] };
}

/** Passes the tree rows of entries that have children. */
export const HAS_CHILDREN: StoreFilter = {
  op: 'and',
  of: [
    { op: 'hasColumn', family: TREE.treeInfo, qualifier: Q.oneLevelCount },
    {
      op: 'not',
      of: { op: 'columnEquals', family: TREE.treeInfo, qualifier: Q.oneLevelCount, value: Buffer.alloc(8) },
    },
  ],
};

/** Returns the filter as one line of text, for `explain`. */
export function storeFilterText(filter: StoreFilter): string {
  switch (filter.op) {
    case 'and':
    case 'or':
      return `(${filter.op === 'and' ? '&' : '|'}${filter.of.map(storeFilterText).join('')})`;
    case 'not':
      return `(!${storeFilterText(filter.of)})`;
    case 'hasColumn':
      return `(has ${printable(filter.qualifier)})`;
    case 'columnEquals':
      return `(${printable(filter.qualifier)} is ${filter.value.toString('hex')})`;
    case 'anyColumn':
      if ('from' in filter.match) return `(any ${printable(filter.match.from)} … ${printable(filter.match.to)})`;
      if ('any' in filter.match) {
        const { prefix, initial, any, final } = filter.match;
        const patternText = [initial, ...any, final].map((p) => (p ? printable(p) : '')).join('*');
        return `(any ${printable(prefix)}${patternText})`;
      }
      return `(any ${printable(filter.match.prefix)}*)`;
  }
}

function printable(bytes: Buffer): string {
  return bytes
    .subarray(0, 80)
    .toString('latin1')
    .replace(/[^\x20-\x7e]/g, (c) => `\\${c.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
