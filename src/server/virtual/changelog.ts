import type { Filter } from '../../ldap/ldap-types.js';
import { ChangeReader, type NumberedChange, timeMs } from '../../partition/feed/change-reader.js';
import type { Partition } from '../../partition/index.js';
import { generalizedTime } from '../../partition/model/csn.js';
import { changeLines, tellChange } from './change-ldif.js';
import type { ComputedEntry, VirtualAttributes } from './virtual-attributes.js';

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
