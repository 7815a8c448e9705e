import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { LdapError } from '../../src/ldap/error.js';
import { INDEX_BYTES } from '../../src/partition/index.js';
import { MASTER } from '../../src/partition/tables.js';
import type { Hit } from '../../src/partition/types.js';
import { unpackRow } from '../../src/store/row.js';
import { type Fixture, type SearchGiven, uuidText } from '../partition/fixture.js';

/** Between two searches, ms: the writers are to have the machine. */
const PAUSE_MS = 5;

/**
 * A reader that searches throughout. The entries are those of writers who change description and mail together, to the same
 * value, and have the RDN's value as only cn. Of one search it expects no entry and no DN twice, and every entry whole;
 * what it has seen of each entry is kept, to be held against all that the entry ever was.
 */
export class Watcher {
  /** By entryUUID: DN and description, and the search that saw it so. */
  readonly seen = new Map<string, Map<string, string>>();
  searches = 0;
  readonly #front: Fixture;
  readonly #running: Promise<void>;
  #stopped = false;

  /** Gives `searches` in turn, of the writers' entries only. */
  constructor(front: Fixture, searches: readonly SearchGiven[]) {
    this.#front = front;
    this.#running = this.#watch(searches);
    // It is `stop` that tells.
    this.#running.catch(() => undefined);
  }

  /** Ends it; rejects with the first thing that was wrong. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  /** `states`: all that each entry was or was about to be, as `stateOf` says it. */
  expectKnown(states: ReadonlyMap<string, ReadonlySet<string>>): void {
    expect(this.searches).to.be.greaterThan(0);
    for (const [id, found] of this.seen) {
      const known = states.get(id);
      for (const [state, search] of found)
        expect(known?.has(state), `${search} saw ${id} as ${state.slice(0, 200)}, which it never was`).to.equal(true);
    }
  }

  async #watch(searches: readonly SearchGiven[]): Promise<void> {
    for (let n = 0; !this.#stopped; n++) {
      await this.#search(searches[n % searches.length]!);
      await sleep(PAUSE_MS);
    }
  }

  async #search(given: SearchGiven): Promise<void> {
    const name = `${given.base} ${given.scope} ${given.filter}`;
    const hits: Hit[] = [];
    try {
      const { partition } = this.#front;
      await partition.search(this.#front.params(given), {
        entry: (hit) => void hits.push(hit),
        reference: () => undefined,
      });
    } catch (error) {
      if (!(error instanceof LdapError && error.result === 'unavailable')) throw error;
      return;
    }
    this.searches++;
    const ids = hits.map((hit) => uuidText(hit.id));
    expect(new Set(ids).size, `${name}: an entry twice in ${hits.map((h) => `${uuidText(h.id)} ${h.dn}`)}`).to.equal(
      ids.length,
    );
    const dns = hits.map((hit) => hit.dn.toString());
    expect(new Set(dns).size, `${name}: a DN twice in ${dns}`).to.equal(dns.length);
    for (const [i, hit] of hits.entries()) this.#note(name, ids[i]!, dns[i]!, hit);
  }

  #note(search: string, id: string, dn: string, { row }: Hit): void {
    const values = new Map<string, string[]>();
    for (const { family, qualifier, value } of unpackRow(row)) {
      if (family !== MASTER.upAttributes) continue;
      const type = qualifier.toString('latin1', 0, qualifier.length - INDEX_BYTES);
      values.set(type, [...(values.get(type) ?? []), value.toString('latin1')]);
    }
    expect(values.get('cn'), `${search}: the name of ${dn}`).to.deep.equal([dn.slice(3, dn.indexOf(','))]);
    const description = values.get('description') ?? [];
    expect(values.get('mail'), `${search}: description and mail of ${dn}`).to.deep.equal(description);
    const found = this.seen.get(id) ?? new Map<string, string>();
    this.seen.set(id, found.set(`${dn} ${description[0]}`, search));
  }
}
