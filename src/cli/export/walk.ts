import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { damageOf, type Partition, UNLIMITED_SEARCH, UNRESTRICTED } from '../../partition/index.js';
import type { Hit } from '../../partition/read/sink.js';
import { Salvage, type SalvageSink } from '../../partition/upkeep/salvage.js';
import type { Dn } from '../../schema/schema-types.js';

export const ANY_ENTRY: Filter = { type: 'present', attribute: 'objectClass' };

export async function search(
  partition: Partition,
  base: Dn,
  scope: Scope,
  filter: Filter,
  visit: (hit: Hit) => Promise<void>,
): Promise<void> {
  await partition.search({ ...UNLIMITED_SEARCH, base, scope, filter }, { entry: visit, reference: () => undefined });
}

/** Visits the entries at and below `base`, parents before children. The sink also receives unreadable entries. */
export async function walkAll(partition: Partition, base: Dn, sink: SalvageSink): Promise<void> {
  const salvage = new Salvage(partition.store, partition.schema, sink);
  if (await salvage.visitFrom(base, partition.context.shared.suffixes)) return;
  // Reports a missing base as a search does.
  await search(partition, base, 'base', ANY_ENTRY, sink.entry);
}

/** Counts the RDNs in a DN (RFC 4514: commas in values are escaped). */
function countRdns(dn: Buffer): number {
  let depth = dn.length === 0 ? 0 : 1;
  for (let i = 0; i < dn.length; i++) {
    if (dn[i] === 0x5c) i++;
    else if (dn[i] === 0x2c) depth++;
  }
  return depth;
}

/**
 * Visits the matching entries at and below `base`, upper ones first. The first search finds their depths; then a search
 * runs per depth. On damage, every readable entry is tested instead.
 */
export async function walkMatching(partition: Partition, base: Dn, filter: Filter, sink: SalvageSink): Promise<void> {
  const depths = new Set<number>();
  try {
    await search(partition, base, 'sub', filter, async (hit) => {
      depths.add(countRdns(hit.dn));
    });
  } catch (error) {
    if (!damageOf(error)) throw error;
    const visitMatch: SalvageSink['entry'] = async (entry) => {
      if (partition.findVirtual(entry, filter, UNRESTRICTED)) await sink.entry(entry);
    };
    return walkAll(partition, base, { ...sink, entry: visitMatch });
  }
  for (const depth of [...depths].sort((a, b) => a - b)) {
    await search(partition, base, 'sub', filter, async (hit) => {
      if (countRdns(hit.dn) === depth) await sink.entry(hit);
    });
  }
}
