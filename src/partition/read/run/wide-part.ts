import type { AttributeType } from '../../../schema/schema-types.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import {
  cutNorm,
  largeQualifiers,
  MASTER_TABLE,
  normQualifier,
  normRdnOf,
  oidBytes,
  parentIdOf,
  TREE_TABLE,
  treeKey,
} from '../../model/tables.js';
import { wideAttributes } from '../../model/wide.js';
import {
  indexesIn,
  isSameVersion,
  MAX_NEXT,
  masterRanges,
  normRanges,
  type Wide,
  wideOf,
} from '../../model/wide-read.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { CompiledFilter, Term } from '../filter/compiled-filter.js';
import type { Selects } from '../search-params.js';

/** Whether any wide attribute is to be returned. */
export function returnsWide(context: TreeContext, head: Buffer, selects: Selects | undefined): boolean {
  if (!selects) return true;
  return wideAttributes(head).some(({ text }) => {
    const bytes = Buffer.from(text, 'latin1');
    return selects.takes(context.descriptions.intern(bytes, 0, bytes.length));
  });
}

/**
 * The part of an entry whose row is long, of which `head` has come, that a filter looks at: of the wide attributes only
 * the values that it names. A group is found by its member at a cost that does not grow with the group. Undefined when
 * the filter needs more of a wide attribute, or the row has changed since its head was read.
 */
export function partForFilter(
  context: TreeContext,
  reader: Reader,
  id: Buffer,
  head: Buffer,
  filter: CompiledFilter,
): Maybe<Buffer | undefined> {
  const wide = wideOf(context, head);
  const names = wide.length > 0 ? namesIn(context, head, wide, filter) : undefined;
  if (!names) return undefined;
  const treeRow = treeKey(parentIdOf(head), normRdnOf(head));
  const named = names.size > 0 ? reader.getColumns(TREE_TABLE.name, treeRow, normRanges(names.values())) : undefined;
  return chain(named, (cells) =>
    chain(reader.getColumns(MASTER_TABLE.name, id, masterRanges(wide, indexesIn(cells))), (row) =>
      row && isSameVersion(row, head) ? row : undefined,
    ),
  );
}

/** Tree cells of the values that the filter names; undefined when it needs more of a wide attribute. */
function namesIn(
  context: TreeContext,
  head: Buffer,
  wide: readonly Wide[],
  filter: CompiledFilter,
): Map<string, Buffer> | undefined {
  if (largeQualifiers(head) || wide.some(({ next }) => next > MAX_NEXT)) return undefined;
  const types = new Set(wide.map(({ description }) => description.type));
  // Whether an entry is an alias or a referral is seen from its classes.
  if (types.has(context.schema.requireDescription('objectClass').type)) return undefined;
  const names = new Map<string, Buffer>();
  return addNames(filter, types, names) ? names : undefined;
}

/** False when the filter needs more. */
function addNames(filter: CompiledFilter, types: ReadonlySet<AttributeType>, names: Map<string, Buffer>): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'term':
      return addName(filter, types, names);
    case 'not':
      return addNames(filter.of, types, names);
    default:
      return filter.of.every((part) => addNames(part, types, names));
  }
}

function addName(
  { types: asked, exact, lookup, chain: links }: Term,
  types: ReadonlySet<AttributeType>,
  names: Map<string, Buffer>,
): boolean {
  if (links?.by === 'chain') return true;
  if (links?.type.subtypes.some((type) => types.has(type))) return false;
  if (asked.length > 0 && !asked.some((type) => types.has(type))) return true;
  if (!exact || (lookup?.kind !== 'equality' && lookup?.kind !== 'anyOf')) return false;
  for (const type of asked) {
    if (type.equality !== asked[0]!.equality) return false;
    for (const norm of lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm]) {
      const qualifier = normQualifier(oidBytes(type.oid), cutNorm(norm));
      names.set(qualifier.toString('latin1'), qualifier);
    }
  }
  return true;
}
