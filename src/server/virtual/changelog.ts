import type { Filter } from '../../ldap/ldap-types.js';
import { formatChange, type LdifChange, LEFT_OUT } from '../../ldif/index.js';
import { ChangeReader, type NumberedChange, timeMs } from '../../partition/feed/change-reader.js';
import { INDEX_BYTES, largeQualifiers, type Partition } from '../../partition/index.js';
import { decodeBefore } from '../../partition/model/before-image.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { ComputedEntry, VirtualAttributes } from './monitor.js';

export const CHANGELOG_DN = 'cn=changelog';

/** Returns the entry above the changes, with the numbers of the first and the last one that is kept. */
export function changelogEntry({ store, feed }: Partition): ComputedEntry {
  const numbers = async (): Promise<VirtualAttributes> => {
    for await (const [first] of new ChangeReader(store).read())
      return [
        ['firstChangeNumber', [String(first!.number)]],
        ['lastChangeNumber', [String((await feed.latest()).number)]],
      ];
    return [];
  };
  const attributes = async (): Promise<VirtualAttributes> => [
    ['objectClass', ['top', 'container', 'extensibleObject']],
    ['cn', ['changelog']],
    ...(await numbers()),
    ['hasSubordinates', ['TRUE']],
  ];
  return { dn: CHANGELOG_DN, attributes };
}

/** Yields the changes of which a filter on `changeNumber` can be true (draft-good-ldap-changelog-04), in order. */
export async function* changelogEntries(partition: Partition, filter: Filter): AsyncGenerator<ComputedEntry> {
  const { from, to } = numbersOf(filter);
  for await (const changes of new ChangeReader(partition.store, from - 1n).read())
    for (const change of changes) {
      if (change.number > to) return;
      yield {
        dn: `changeNumber=${change.number},${CHANGELOG_DN}`,
        attributes: () => changeAttributes(partition, change),
      };
    }
}

async function changeAttributes(partition: Partition, record: NumberedChange): Promise<VirtualAttributes> {
  const { change } = await tellChange(partition, record);
  const isRename = change.kind === 'modrdn';
  const lines = isRename ? '' : changeLines(change);
  return [
    ['objectClass', ['top', 'changeLogEntry', 'extensibleObject']],
    ['changeNumber', [String(record.number)]],
    ['targetDN', [change.dn]],
    ['changeType', [change.kind]],
    ['changes', lines === '' ? [] : [lines]],
    ['newRDN', isRename ? [change.newRdn] : []],
    ['deleteOldRDN', isRename ? [change.deleteOldRdn ? 'TRUE' : 'FALSE'] : []],
    ['newSuperior', isRename && change.newSuperior !== undefined ? [change.newSuperior] : []],
    ['changeTime', [generalizedTime(timeMs(record))]],
    ['hasSubordinates', ['FALSE']],
  ];
}

/** Any number of a change is below. */
const NO_LIMIT = 2n ** 63n;

/** Returns the range outside of which the filter is true of no change number. */
function numbersOf(filter: Filter): { readonly from: bigint; readonly to: bigint } {
  const all = { from: 1n, to: NO_LIMIT };
  if (filter.type === 'and') {
    for (const { from, to } of filter.filters.map(numbersOf)) {
      if (from > all.from) all.from = from;
      if (to < all.to) all.to = to;
    }
    return all;
  }
  if (filter.type !== 'equal' && filter.type !== 'greaterOrEqual' && filter.type !== 'lessOrEqual') return all;
  const text = filter.value.toString('latin1');
  if (filter.attribute.toLowerCase() !== 'changenumber' || !/^\d{1,18}$/.test(text)) return all;
  const number = BigInt(text);
  return {
    from: filter.type === 'lessOrEqual' || number === 0n ? 1n : number,
    to: filter.type === 'greaterOrEqual' ? NO_LIMIT : number,
  };
}

type ChangeSource = Pick<Partition, 'readById' | 'schema'>;

/** A change as an LDIF change record, and comment lines that tell which values it lacks: secret and long ones. */
interface ToldChange {
  readonly change: LdifChange;
  readonly remarks: string;
}

/**
 * Returns a change as an LDIF change record (RFC 2849). Its values are those that the entry has now: a later change of
 * an attribute shows in an earlier one, too. An entry that is gone has none.
 */
export async function tellChange(source: ChangeSource, record: NumberedChange): Promise<ToldChange> {
  const { op } = record;
  const dn = record.dn.toString();
  if (op === 'delete') return { change: { kind: 'delete', dn }, remarks: '' };
  if (op === 'rename') return { change: tellRename(source, record, dn), remarks: '' };
  const entry = await source.readById(record.id);
  const longNames = new Set([...((entry && largeQualifiers(entry.row)) ?? [])].map((q) => q.slice(0, -INDEX_BYTES)));
  const leftOut: string[] = [];
  const told = (entry?.attributes ?? []).flatMap(({ description, type, values }) => {
    const isChanged = op !== 'modify' || record.attributes?.includes(type.name) === true;
    const isLeftOut = type.secret || longNames.has(description);
    if (isChanged && isLeftOut) leftOut.push(`${LEFT_OUT}${description}, ${type.secret ? 'secret' : 'long'}\n`);
    return isChanged && !isLeftOut ? { type: description, name: type.name, values } : [];
  });
  const remarks = leftOut.join('');
  if (op !== 'modify') return { change: { kind: 'add', dn, attributes: told }, remarks };
  const isGone = (name: string): boolean =>
    source.schema.attribute(name)?.secret === false && !entry?.attributes.some(({ type }) => type.name === name);
  const gone = entry ? (record.attributes ?? []).filter(isGone).map((type) => ({ type, values: [] })) : [];
  const changes = [...told, ...gone].map((attribute) => ({ operation: 'replace' as const, attribute }));
  return { change: { kind: 'modify', dn, changes }, remarks };
}

function tellRename({ schema }: ChangeSource, { dn, newDn, beforeImage }: NumberedChange, text: string): LdifChange {
  const { rdns } = schema.parseDnBytes(newDn ?? dn);
  const { info, attributes } = decodeBefore(beforeImage ?? Buffer.alloc(0));
  const oldTypes = schema.parseDnBytes(dn).rdns[0]!.avas.map(({ type }) => type);
  const isRemoved = ({ description, old }: (typeof attributes)[number]): boolean =>
    old.length > 0 && oldTypes.some((type) => type === schema.describe(description)?.type);
  const superior = rdns.slice(1).map((rdn) => rdn.text);
  return {
    kind: 'modrdn',
    dn: text,
    newRdn: rdns[0]!.text,
    deleteOldRdn: attributes.some(isRemoved),
    newSuperior: info.has('parentId') ? superior.join(',') : undefined,
  };
}

/** Returns the lines of a change record behind `changetype`; '' for a deletion. */
export function changeLines(change: LdifChange): string {
  const text = formatChange(change).toString('latin1');
  const start = /^changetype: .*\n/m.exec(text)!;
  return text.slice(start.index + start[0].length, -1);
}
