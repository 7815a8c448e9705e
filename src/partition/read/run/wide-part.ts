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
  type DescribedWide,
  describedWide,
  isSameVersion,
  MAX_NEXT_INDEX,
  masterRanges,
  normRanges,
  parseIndexes,
} from '../../model/wide-read.js';
import type { TreeContext } from '../../tree/tree-context.js';
import type { CompiledFilter, Term } from '../filter/compiled-filter.js';
import type { AttributeSelection } from '../search-params.js';

export function returnsWide(context: TreeContext, head: Buffer, selects: AttributeSelection | undefined): boolean {
  if (!selects) return true;
  return wideAttributes(head).some(({ text }) => {
    const bytes = Buffer.from(text, 'latin1');
    return selects.includes(context.descriptions.intern(bytes, 0, bytes.length));
  });
}

/**
 * Reads the part of a split row that the filter needs: the head and, of wide attributes, only the values in the filter.
 * So finding a group by a member does not cost more for a large group. Returns undefined if the filter needs more of a
 * wide attribute, or the row has changed since `head` was read.
 */
export function readFilterPart(
  context: TreeContext,
  reader: Reader,
  id: Buffer,
  head: Buffer,
  filter: CompiledFilter,
): Maybe<Buffer | undefined> {
  const wides = describedWide(context, head);
  const qualifiers = wides.length > 0 ? namedQualifiers(context, head, wides, filter) : undefined;
  if (!qualifiers) return undefined;
  const treeRow = treeKey(parentIdOf(head), normRdnOf(head));
  const cells =
    qualifiers.size > 0 ? reader.getColumns(TREE_TABLE.name, treeRow, normRanges(qualifiers.values())) : undefined;
  return chain(cells, (read) =>
    chain(reader.getColumns(MASTER_TABLE.name, id, masterRanges(wides, parseIndexes(read))), (row) =>
      row && isSameVersion(row, head) ? row : undefined,
    ),
  );
}

/** Returns the tree cells of the values in the filter; undefined if the filter needs more values. */
function namedQualifiers(
  context: TreeContext,
  head: Buffer,
  wides: readonly DescribedWide[],
  filter: CompiledFilter,
): Map<string, Buffer> | undefined {
  if (largeQualifiers(head) || wides.some(({ nextIndex }) => nextIndex > MAX_NEXT_INDEX)) return undefined;
  const types = new Set(wides.map(({ description }) => description.type));
  // Recognizing an alias or a referral requires all classes.
  if (types.has(context.schema.requireDescription('objectClass').type)) return undefined;
  const qualifiers = new Map<string, Buffer>();
  return addQualifiers(filter, types, qualifiers) ? qualifiers : undefined;
}

/** Adds the cells of the values in the filter. Returns false if the filter needs more values. */
function addQualifiers(
  filter: CompiledFilter,
  types: ReadonlySet<AttributeType>,
  qualifiers: Map<string, Buffer>,
): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'term':
      return addTermQualifiers(filter, types, qualifiers);
    case 'not':
      return addQualifiers(filter.part, types, qualifiers);
    default:
      return filter.parts.every((part) => addQualifiers(part, types, qualifiers));
  }
}

function addTermQualifiers(
  { types: termTypes, isExact, lookup, chain: links }: Term,
  types: ReadonlySet<AttributeType>,
  qualifiers: Map<string, Buffer>,
): boolean {
  if (links?.kind === 'chain') return true;
  if (links?.type.subtypes.some((type) => types.has(type))) return false;
  if (termTypes.length > 0 && !termTypes.some((type) => types.has(type))) return true;
  if (!isExact || (lookup?.kind !== 'equality' && lookup?.kind !== 'anyOf')) return false;
  for (const type of termTypes) {
    if (type.equality !== termTypes[0]!.equality) return false;
    for (const norm of lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm]) {
      const qualifier = normQualifier(oidBytes(type.oid), cutNorm(norm));
      qualifiers.set(qualifier.toString('latin1'), qualifier);
    }
  }
  return true;
}
