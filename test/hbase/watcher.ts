import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { INDEX_BYTES } from '../../src/partition/index.js';
import { MASTER, treeKey } from '../../src/partition/model/tables.js';
import type { Hit } from '../../src/partition/read/sink.js';
import { unpackRow } from '../../src/store/row.js';
import { type Fixture, SUFFIX, uuidText } from '../partition/fixture.js';
import { SHARED, stateOf, WRITERS } from '../partition/kill-model.js';
import { isUnavailable } from './load.js';

/** Between two searches, ms: the writers are to have the machine. */
const PAUSE_MS = 20;
const STILL = 8;
const stillName = (n: number): string => `cn=wstill-${n}`;
const equalities = Array.from({ length: STILL }, (_, n) => `(${stillName(n)})`).join('');

interface WatchedSearch {
  readonly how: string;
  readonly base: string;
  readonly scope: 'one' | 'sub';
  /** Of one writer's entries, or of all writers'. */
  filter(writer: number): string;
}

/** Each finds all that stands still, and no entries but those and writers'. An index is asked for one writer's. */
const SEARCHES: readonly WatchedSearch[] = [
  { how: 'ranges of an index', base: SUFFIX, scope: 'sub', filter: (k) => `(|(cn=wstill*)(cn=w${k}-*))` },
  { how: 'rows of an index', base: SUFFIX, scope: 'sub', filter: () => `(|${equalities})` },
  {
    how: 'an index, and what it does not know',
    base: SUFFIX,
    scope: 'sub',
    filter: (k) => `(&(description=*)(|(mail=wstill*)(mail=${k}-*)))`,
  },
  { how: 'the tree', base: SHARED, scope: 'one', filter: () => '(description=*)' },
  { how: 'all rows', base: SUFFIX, scope: 'sub', filter: () => '(description=*)' },
];

/** Entries that nobody changes: DN and description by entryUUID. */
export type Still = ReadonlyMap<string, string>;

/** Makes them, beside the writers' entries. */
export async function standStill(front: Fixture): Promise<Still> {
  const still = new Map<string, string>();
  for (let n = 0; n < STILL; n++) {
    const dn = `${stillName(n)},${SHARED}`;
    const text = `wstill-${n}`;
    const id = await front.add(dn, { objectClass: 'inetOrgPerson', sn: text, description: text, mail: text });
    still.set(uuidText(id), stateOf(dn, text));
  }
  return still;
}

/** A key of the tree table with some of them before it and some behind, whose rows follow each other. */
export async function amongStill(front: Fixture): Promise<Buffer> {
  const { id } = await front.read(SHARED);
  return treeKey(id, front.dn(stillName(STILL >> 1)).rdns[0]!.norm);
}

/**
 * A reader that searches throughout. The entries are those of writers who change description and mail together, to the
 * same value, and have the RDN's value as only cn. Of one search it expects no entry and no DN twice, every entry
 * whole, and all that stands still; what it has seen of each other entry is kept, to be held against all that the entry
 * ever was. A search may be told `unavailable`.
 */
export class Watcher {
  /** By entryUUID: DN and description, and the search that saw it so. */
  readonly seen = new Map<string, Map<string, string>>();
  /** How often each search was answered. */
  readonly #answered = new Map<WatchedSearch, number>(SEARCHES.map((search) => [search, 0]));
  unavailable = 0;
  readonly #front: Fixture;
  readonly #still: Still;
  readonly #running: Promise<unknown>;
  #stopped = false;

  constructor(front: Fixture, still: Still) {
    this.#front = front;
    this.#still = still;
    this.#running = Promise.all(SEARCHES.map((search) => this.#watch(search)));
    // It is `more` and `stop` that tell.
    this.#running.catch(() => {
      this.#stopped = true;
    });
  }

  /** Resolves when each search was answered so many times more; rejects with the first thing that was wrong. */
  async more(count: number): Promise<void> {
    const before = new Map(this.#answered);
    const waits = (search: WatchedSearch) => this.#answered.get(search)! < before.get(search)! + count;
    while (SEARCHES.some(waits)) await Promise.race([sleep(PAUSE_MS), this.#running]);
  }

  /** Ends it; rejects with the first thing that was wrong. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** `states`: all that each entry was or was about to be, as `stateOf` says it. */
  expectKnown(states: ReadonlyMap<string, ReadonlySet<string>>): void {
    for (const [{ how }, count] of this.#answered) expect(count, how).to.be.greaterThan(0);
    for (const [id, found] of this.seen) {
      const known = states.get(id);
      for (const [state, search] of found)
        expect(known?.has(state), `${search} saw ${id} as ${state.slice(0, 200)}, which it never was`).to.equal(true);
    }
  }

  async #watch(search: WatchedSearch): Promise<void> {
    for (let n = 0; !this.#stopped; n++) {
      await this.#search(search, search.filter(n % WRITERS));
      await sleep(PAUSE_MS);
    }
  }

  async #search(search: WatchedSearch, filter: string): Promise<void> {
    const name = `${filter} ${search.scope}, by ${search.how}`;
    const hits: Hit[] = [];
    try {
      const { partition } = this.#front;
      await partition.search(this.#front.params({ ...search, filter }), {
        entry: (hit) => void hits.push(hit),
        reference: () => undefined,
      });
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.unavailable++;
      return;
    }
    const ids = hits.map((hit) => uuidText(hit.id));
    if (new Set(ids).size !== ids.length)
      expect.fail(`${name}: an entry twice in ${hits.map((h) => `${uuidText(h.id)} ${h.dn}`)}`);
    const dns = hits.map((hit) => hit.dn.toString());
    if (new Set(dns).size !== dns.length) expect.fail(`${name}: a DN twice in ${dns}`);
    const states = new Map(hits.map((hit, i) => [ids[i]!, stateSeen(name, dns[i]!, hit)]));
    for (const [id, state] of this.#still)
      if (states.get(id) !== state) expect(states.get(id), `${name}: what stands still`).to.equal(state);
    for (const [id, state] of states) this.#note(name, id, state);
    this.#answered.set(search, this.#answered.get(search)! + 1);
  }

  #note(search: string, id: string, state: string): void {
    if (this.#still.has(id)) return;
    const found = this.seen.get(id) ?? new Map<string, string>();
    this.seen.set(id, found.set(state, search));
  }
}

/** What a search saw of an entry, which has to be whole. */
function stateSeen(search: string, dn: string, { row }: Hit): string {
  const values = new Map<string, string[]>();
  for (const { family, qualifier, value } of unpackRow(row)) {
    if (family !== MASTER.upAttributes) continue;
    const type = qualifier.toString('latin1', 0, qualifier.length - INDEX_BYTES);
    values.set(type, [...(values.get(type) ?? []), value.toString('latin1')]);
  }
  const [description, ...more] = values.get('description') ?? [];
  const expected = { cn: dn.slice(3, dn.indexOf(',')), mail: description };
  const isWhole =
    more.length === 0 &&
    Object.entries(expected).every(([type, value]) => {
      const found = values.get(type);
      return found?.length === 1 && found[0] === value;
    });
  if (!isWhole) expect.fail(`${search}: name, description or mail of ${dn}: ${JSON.stringify([...values])}`);
  return `${dn} ${description}`;
}
