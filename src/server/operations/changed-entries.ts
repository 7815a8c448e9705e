import type { NumberedChange } from '../../partition/feed/change-reader.js';
import { decodeBefore } from '../../partition/model/before-image.js';
import { type Node, UUID_BYTES } from '../../partition/model/tables.js';
import type { FollowedSearch } from './followed-search.js';

/** An entry that changes have changed, perhaps several times. */
export interface ChangedEntry {
  readonly id: Buffer;
  /** DN before the first change, UTF-8. */
  readonly dn: Buffer;
  /** Whether the first change adds or restores the entry. */
  readonly isNew: boolean;
  isDeleted: boolean;
  /** Of each rename: entryUUID of the parent before it and the normalized RDN, as Latin-1, where it changes them. */
  readonly renames: { readonly parent: string | undefined; readonly rdn: string | undefined }[];
}

/** Gathers the entries that changes have changed, each once. */
export class ChangedEntries {
  readonly #entriesById = new Map<string, ChangedEntry>();

  add({ id, dn, op, beforeImage }: NumberedChange): void {
    const key = idKey(id);
    const isNew = op === 'add' || op === 'restore';
    const first = { id: Buffer.from(id), dn: Buffer.from(dn), isNew, isDeleted: false, renames: [] };
    const entry: ChangedEntry = this.#entriesById.get(key) ?? first;
    if (op === 'rename' && beforeImage) {
      const { info } = decodeBefore(beforeImage);
      entry.renames.push({
        parent: info.get('parentId')?.toString('latin1'),
        rdn: info.get('normRdn')?.toString('latin1'),
      });
    }
    entry.isDeleted = op === 'delete';
    this.#entriesById.set(key, entry);
  }

  /**
   * Removes all entries, and returns them in an order in which a consumer can apply their present states: an entry
   * before those below it, and one that gives up a name before one that takes it. Where entries exchange names, one is
   * deleted first.
   */
  async takeInOrder(search: FollowedSearch): Promise<ChangedEntry[]> {
    const { partition } = search.context.services;
    const entries = [...this.#entriesById.values()];
    this.#entriesById.clear();
    const places = new Map<ChangedEntry, string>();
    const present = new Map(entries.filter((entry) => !entry.isDeleted).map((entry) => [idKey(entry.id), entry]));
    const parents = new Map<ChangedEntry, Node | undefined>();
    /** The entries that a consumer may have at a place where they are not any more. */
    const leavers = new Map<string, ChangedEntry[]>();
    for (const entry of entries) {
      await search.slice.yieldIfOver();
      const { id, isNew, isDeleted, renames } = entry;
      if (!isDeleted) parents.set(entry, (await search.readStored(id))?.parent);
      const place = isNew || isDeleted || renames.length > 0 ? await partition.placeById(id) : undefined;
      if (place === undefined) continue;
      if (!isDeleted) places.set(entry, place);
      for (const former of formerPlaces(entry, place)) {
        const others = leavers.get(former) ?? [];
        others.push(entry);
        leavers.set(former, others);
      }
    }
    const ordered = new Set<ChangedEntry>();
    const begun = new Set<ChangedEntry>();
    /** Each entry waits for the next one. `above`: those above it, the topmost last; `leavers`: of its place. */
    const waiting: { entry: ChangedEntry; above: (ChangedEntry | undefined)[]; leavers: ChangedEntry[] }[] = [];
    const begin = (entry: ChangedEntry | undefined): void => {
      if (!entry || begun.has(entry)) return;
      begun.add(entry);
      const above: (ChangedEntry | undefined)[] = [];
      for (let node = parents.get(entry); node; node = node.parent) above.unshift(present.get(idKey(node.id)));
      waiting.push({ entry, above, leavers: [...(leavers.get(places.get(entry) ?? '') ?? [])].reverse() });
    };
    for (const entry of entries.sort((a, b) => Number(a.isDeleted) - Number(b.isDeleted))) {
      begin(entry);
      for (let last = waiting.at(-1); last; last = waiting.at(-1)) {
        const leaver = last.leavers.at(-1);
        if (last.above.length > 0) begin(last.above.pop());
        else if (leaver && !begun.has(leaver)) begin(leaver);
        else if (leaver) {
          if (!ordered.has(leaver)) ordered.add({ ...leaver, isDeleted: true });
          last.leavers.pop();
        } else ordered.add(waiting.pop()!.entry);
        await search.slice.yieldIfOver();
      }
    }
    return [...ordered];
  }
}

/** Returns the places, as `Partition.placeById` has them, that the entry has had but has not any more. */
function formerPlaces({ renames, isDeleted }: ChangedEntry, place: string): Set<string> {
  const places = new Set(isDeleted ? [place] : []);
  let former = place;
  for (const { parent, rdn } of renames.toReversed()) {
    former = (parent ?? former.slice(0, UUID_BYTES)) + (rdn ?? former.slice(UUID_BYTES));
    if (former !== place) places.add(former);
  }
  return places;
}

function idKey(id: Buffer): string {
  return id.toString('latin1');
}
