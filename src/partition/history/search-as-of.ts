import { BoundedMap } from '../../cache/bounded-map.js';
import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/index.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Maybe, Store } from '../../store/contract.js';
import type { Directory } from '../directory.js';
import { cutNorm, MASTER_TABLE, type Node, normRdnOf, parentIdOf, ROOT_ID, upRdnOf } from '../model/tables.js';
import { type Sight, seenRow, type ViewedEntry, type Viewer } from '../model/viewer.js';
import { IdSet } from '../read/plan/id-set.js';
import { requireTime, type SearchParams } from '../read/search-params.js';
import type { Hit } from '../read/sink.js';
import { isVisible } from '../tree/locate.js';
import { childCount } from '../tree/master-row.js';
import { childId, isWithin, joinDn, makeNode, normText, ROOT, suffixRdnIndex } from '../tree/nodes.js';
import type { TreeContext } from '../tree/tree-context.js';
import { FormerRows, shownRow } from './former-rows.js';

/** An entry as it was, without secrets and values over 64 KiB. */
export type FormerHit = Pick<Hit, 'id' | 'row' | 'dn' | 'sight'>;

/** What the search needs of the directory. */
export interface PresentDirectory extends Pick<Directory, 'search'> {
  readonly store: Store;
  readonly schema: Schema;
  readonly suffixes: readonly Dn[];
  readonly context: TreeContext;
  readStored(id: Buffer): Maybe<{ readonly name: Dn } | undefined>;
  findVirtual(
    entry: Omit<ViewedEntry, 'parent'> & { readonly dn: Buffer; readonly parent: Node | undefined },
    filter: Filter,
    viewer: Viewer,
  ): FormerHit | undefined;
}

const MAX_NODES = 200_000;

/**
 * Searches the directory as it was at a moment, milliseconds since 1970: the present search without the entries that
 * were changed since, and each of these as it was. Names are those of the moment, rights are those of today: whoever
 * does not see all entries finds one that is there, is visible both as it is and as it was, and is known as a whole.
 * Computed attributes, such as memberOf, match no changed entry. Resolves with the number of entries. Aliases and
 * referral objects are entries.
 *
 * `maxChanges`: the most change records that are read, as `lookLimit` is. Throws as `FormerRows.open`,
 * `adminLimitExceeded` at the end if entries that were there are purged, and `busy` if an entry that has others below
 * it is renamed meanwhile.
 */
export async function searchAsOf(
  partition: PresentDirectory,
  params: SearchParams,
  atMs: number,
  onHit: (hit: FormerHit) => Maybe<void>,
  maxChanges = Number.POSITIVE_INFINITY,
): Promise<number> {
  const slice = new TimeSlice(params.client);
  const pause = (): Maybe<void> => {
    requireTime(params);
    return slice.yieldIfOver();
  };
  const rows = await FormerRows.open(partition.store, atMs, undefined, {
    maxChanges: Math.min(maxChanges, params.lookLimit),
    pause,
  });
  return new SearchAsOf(partition, params, rows, pause, onHit).run();
}

class SearchAsOf {
  readonly #partition: PresentDirectory;
  readonly #params: SearchParams;
  readonly #rows: FormerRows;
  readonly #onHit: (hit: FormerHit) => Maybe<void>;
  readonly #pause: () => Maybe<void>;
  readonly #nodes = new BoundedMap<string, Node>(MAX_NODES);
  /** Changed entries by their place at the moment: entryUUID of the parent and normalized RDN, Latin-1. */
  readonly #idsByPlace = new Map<string, Buffer>();
  readonly #sentIds = new IdSet();
  #base!: Node;
  #hitCount = 0;

  constructor(
    partition: PresentDirectory,
    params: SearchParams,
    rows: FormerRows,
    pause: () => Maybe<void>,
    onHit: (hit: FormerHit) => Maybe<void>,
  ) {
    this.#partition = partition;
    this.#params = params;
    this.#rows = rows;
    this.#onHit = onHit;
    this.#pause = pause;
  }

  async run(): Promise<number> {
    const { scope } = this.#params;
    for (const id of this.#rows.changedIds()) {
      await this.#pause();
      const row = await this.#rows.rowOf(id);
      if (row) this.#idsByPlace.set(placeOf(parentIdOf(row), normRdnOf(row)), id);
    }
    this.#base = await this.#findBase();
    const moved = await this.#movedIds();
    const present = (await this.#partition.readStored(this.#base.id))?.name;
    const held: FormerHit[] = [];
    if (moved.size > 0 && scope !== 'base')
      for (const base of this.#partition.suffixes) await this.#searchPresent({ base, scope: 'sub' }, held);
    else if (present) await this.#searchPresent({ base: present, scope }, held);
    await this.#rows.renew();
    if (moved.size === 0 && (await this.#movedIds()).size > 0)
      throw new LdapError('busy', 'an entry that has others below it was renamed meanwhile; repeat the search');
    for (const hit of held) if (!this.#rows.isChanged(hit.id)) await this.#send(hit);
    for (const id of this.#rows.changedIds()) await this.#sendFormer(id);
    if (!this.#params.viewer.sightOf && this.#rows.lostNames.some((name) => this.#mayInclude(name)))
      throw new LdapError(
        'adminLimitExceeded',
        'entries that were there at that time are purged; all others were sent',
      );
    return this.#hitCount;
  }

  /** Returns the node of an entry as it was; undefined: it was not there. */
  async #nodeOf(id: Buffer): Promise<Node | undefined> {
    if (id.equals(ROOT_ID)) return ROOT;
    const key = id.toString('latin1');
    const known = this.#nodes.get(key);
    if (known) return known;
    let row = this.#rows.isChanged(id) ? undefined : await this.#partition.store.getHead(MASTER_TABLE.name, id, true);
    if (!row || this.#rows.mayBeNewer(row)) {
      if (row) await this.#rows.renew();
      row = this.#rows.isChanged(id) || !row ? await this.#rows.rowOf(id) : row;
    }
    const parent = row && (await this.#nodeOf(Buffer.from(parentIdOf(row))));
    const node = parent && makeNode(Buffer.from(id), row!, parent);
    if (node) this.#nodes.set(key, node);
    return node;
  }

  /** Finds the base as it was. Throws `noSuchObject` if it was not there, or the client may not see it. */
  async #findBase(): Promise<Node> {
    const { base, viewer } = this.#params;
    const { suffixes, store } = this.#partition;
    let start = suffixRdnIndex(base, suffixes);
    let id = start < 0 ? undefined : (ROOT_ID as Buffer | undefined);
    let parent: Node | undefined = ROOT;
    for (let norm: Buffer = Buffer.from(normText(base, start), 'latin1'); id && parent; norm = base.rdns[start]!.norm) {
      const found: Buffer | undefined = this.#idsByPlace.get(placeOf(id, cutNorm(norm)));
      const present: Buffer | undefined = found ? undefined : await childId(store, parent, cutNorm(norm));
      id = found ?? (present && !this.#rows.isChanged(present) ? Buffer.from(present) : undefined);
      parent = id && (await this.#nodeOf(id));
      if (--start < 0) break;
    }
    const row = parent && (await this.#rows.rowOf(parent.id));
    if (parent && row && (await isVisible(viewer, parent, () => row)) && (await this.#seesNow(parent.id)))
      return parent;
    throw new LdapError('noSuchObject', `there was no entry "${base.text}" at that time`);
  }

  /** Returns what the client sees of an entry as it is now. Undefined: nothing, or the entry is gone. */
  async #sightNow(id: Buffer): Promise<Sight | undefined> {
    const row = await this.#partition.store.get(MASTER_TABLE.name, id);
    const parent = row && (await this.#partition.context.nodes.byId(Buffer.from(parentIdOf(row))));
    return parent && this.#params.viewer.sightOf!({ id, parent, row });
  }

  async #seesNow(id: Buffer): Promise<boolean> {
    return !this.#params.viewer.sightOf || (await this.#sightNow(id)) !== undefined;
  }

  /** Returns the entries that have others below them, and were renamed or moved since the moment. */
  async #movedIds(): Promise<Set<string>> {
    const { store } = this.#partition;
    const moved = new Set<string>();
    for (const id of this.#rows.changedIds()) {
      if (!this.#rows.isRenamed(id)) continue;
      const row = await store.getHead(MASTER_TABLE.name, id, true);
      if (row && (await childCount(store, row)) > 0) moved.add(id.toString('latin1'));
    }
    return moved;
  }

  async #searchPresent(area: Pick<SearchParams, 'base' | 'scope'>, held: FormerHit[]): Promise<void> {
    const options = { deref: 'never', manageDsaIT: true, refuseLong: false, otherThreads: undefined } as const;
    const params = { ...this.#params, ...options, ...area, sizeLimit: 0, order: undefined, resume: undefined };
    const entry = async (hit: Hit): Promise<void> => {
      if (this.#rows.isChanged(hit.id)) return;
      if (!this.#rows.mayBeNewer(hit.row)) return this.#send(hit);
      held.push({ ...hit, id: Buffer.from(hit.id), row: Buffer.from(hit.row), dn: Buffer.from(hit.dn) });
    };
    try {
      await this.#partition.search(params, { entry, reference: () => undefined });
    } catch (error) {
      // The base is gone, or another process is about to remove it.
      if (!(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    }
  }

  /** Sends an entry that has not changed. */
  async #send(hit: FormerHit): Promise<void> {
    const parent = await this.#nodeOf(Buffer.from(parentIdOf(hit.row)));
    if (!parent || !this.#isInScope(makeNode(hit.id, hit.row, parent))) return;
    const dn = joinDn(upRdnOf(hit.row), parent.dn);
    // Its former place has to be for the client to see, too.
    if (this.#params.viewer.sightOf && !dn.equals(hit.dn)) await this.#sendFormer(Buffer.from(hit.id));
    else await this.#emit({ ...hit, dn });
  }

  /** Sends an entry that has changed, if the search would have found it. */
  async #sendFormer(id: Buffer): Promise<void> {
    await this.#pause();
    const { descriptions } = this.#partition.context;
    const { viewer, filter } = this.#params;
    const node = await this.#nodeOf(id);
    if (!node || !this.#isInScope(node)) return;
    const former = (await this.#rows.rowOf(id))!;
    let row = shownRow(descriptions, former);
    if (viewer.sightOf) {
      const sight = this.#rows.isCut(id, former) ? undefined : await this.#sightNow(id);
      if (!sight) return;
      row = seenRow(descriptions, row, sight, 'read');
    }
    const { normRdn, parent, dn } = node;
    const found = this.#partition.findVirtual({ id, dn, row, normRdn, parent }, filter, viewer);
    if (found) await this.#emit(found);
  }

  async #emit(hit: FormerHit): Promise<void> {
    const { sizeLimit } = this.#params;
    if (!this.#sentIds.add(hit.id, 0)) return;
    if (sizeLimit > 0 && this.#hitCount >= sizeLimit)
      throw new LdapError('sizeLimitExceeded', 'more entries were found');
    this.#hitCount++;
    await this.#onHit({ ...hit, row: shownRow(this.#partition.context.descriptions, hit.row) });
  }

  #isInScope(node: Node): boolean {
    const { scope } = this.#params;
    const isBase = node.id.equals(this.#base.id);
    if (scope === 'base') return isBase;
    if (scope === 'one') return node.parent?.id.equals(this.#base.id) === true;
    return isWithin(node, this.#base) && !(isBase && scope === 'subordinate');
  }

  /** Whether an entry of this name, UTF-8, may have been in the scope. */
  #mayInclude(name: Buffer): boolean {
    const { base, scope } = this.#params;
    const { norm, rdns } = this.#partition.schema.parseDnBytes(name);
    const depth = rdns.length - base.rdns.length;
    const isBelow = depth > 0 && norm.subarray(-base.norm.length).equals(base.norm);
    return isBelow && scope !== 'base' && (scope !== 'one' || depth === 1);
  }
}

function placeOf(parentId: Buffer, normRdn: Buffer): string {
  return parentId.toString('latin1') + normRdn.toString('latin1');
}
