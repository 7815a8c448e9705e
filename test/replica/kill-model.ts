import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { PEOPLE, SUFFIX } from '../cli/rowan.js';
import type { Random } from '../partition/fixture.js';
import type { Answer, RawClient } from '../server/raw-client.js';

const PARENTS = [PEOPLE, `ou=groups,${SUFFIX}`];
/** Refusals that say that nothing was changed. */
const REFUSALS =
  /^(nothing is changed|the primary is not reached|replica \S+ has told of|this is a replica|the directory is handed over)/;

/** An entry as its DN and its description; undefined: it is not there. */
type State = { readonly dn: string; readonly text: string } | undefined;

/** What a writer knows of one of its entries. */
interface Known {
  /** As the last acknowledged change left it. */
  acknowledged: State;
  /** What a change without an answer would have made of it. The entry is left alone from then on. */
  unanswered?: { readonly state: State };
}

/** Returns the name of a writer's entry; all its DNs begin with it. */
export function entryOf(dn: string): string | undefined {
  return /^uid=(w\d+e\d+)-/.exec(dn)?.[1];
}

function attribute(type: string, value: string): { readonly type: string; readonly values: readonly Buffer[] } {
  return { type, values: [Buffer.from(value)] };
}

/** What eight writers, each with entries of its own, know of the directory. */
export class Model {
  readonly #random: Random;
  readonly #entries = new Map<string, Known>();
  #count = 0;
  /** Answers of all kinds. */
  answers = 0;
  acknowledged = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Makes a random change of a random entry of the writer. Rejects when the connection ends without an answer. */
  async change(client: RawClient, writer: number): Promise<boolean> {
    const prefix = `w${writer}e`;
    const own = [...this.#entries].filter(
      ([id, known]) => id.startsWith(prefix) && known.acknowledged && !known.unanswered,
    );
    const isNew = own.length < 5 || this.#random.chance(0.2);
    const [id, known] = isNew ? [`${prefix}${this.#count++}`, { acknowledged: undefined }] : this.#random.pick(own);
    this.#entries.set(id, known);
    const [request, state] = this.#request(id, known.acknowledged);
    known.unanswered = { state };
    const { code, final } = await client.request(request);
    this.answers++;
    if (code !== 0) {
      expect(code, `${request.op} of ${id}: ${final.message}`).to.equal(52);
      if (REFUSALS.test(final.message)) delete known.unanswered;
      return false;
    }
    this.#entries.set(id, { acknowledged: state });
    this.acknowledged++;
    return true;
  }

  /** Returns a request and the state that it leads to. */
  #request(id: string, old: State): [Request, State] {
    const random = this.#random;
    const name = `uid=${id}-${this.#count++}`;
    const text = `${this.#count++} ${'x'.repeat(1 + random.int(random.chance(0.1) ? 30_000 : 20))}`;
    if (!old) {
      const dn = `${name},${random.pick(PARENTS)}`;
      const values = { objectClass: 'inetOrgPerson', uid: name.slice(4), cn: id, sn: id, description: text };
      const attributes = Object.entries(values).map(([type, value]) => attribute(type, value));
      return [
        { op: 'add', dn, attributes },
        { dn, text },
      ];
    }
    const { dn } = old;
    const kind = random.int(10);
    if (kind === 0) return [{ op: 'delete', dn }, undefined];
    if (kind < 4) {
      const newSuperior = random.pick(PARENTS);
      const newDn = `${name},${newSuperior}`;
      return [
        { op: 'modifyDN', dn, newRdn: name, deleteOldRdn: true, newSuperior },
        { dn: newDn, text: old.text },
      ];
    }
    const changes = [{ operation: 'replace', attribute: attribute('description', text) } as const];
    return [
      { op: 'modify', dn, changes },
      { dn, text },
    ];
  }

  /** Compares with the entries at a server. Returns what it has lost: acknowledged changes that are missing. */
  lost(found: Found): string[] {
    const lost: string[] = [];
    for (const [id, { acknowledged, unanswered }] of this.#entries) {
      const present = found.get(id);
      const possible = [acknowledged, ...(unanswered ? [unanswered.state] : [])].map(stateText);
      if (!possible.includes(stateText(present))) lost.push(id);
    }
    for (const id of found.keys()) expect(this.#entries.has(id), `${id}, which nobody has added`).to.equal(true);
    return lost;
  }
}

export type Found = ReadonlyMap<string, NonNullable<State>>;

export function stateText(state: State): string {
  return state ? `${state.dn} ${state.text}` : 'absent';
}

function found(entries: Answer['entries']): Found {
  const states = new Map<string, NonNullable<State>>();
  for (const { dn, attributes } of entries) {
    const id = entryOf(dn);
    if (id === undefined) continue;
    expect(states.has(id), `${id} is there twice`).to.equal(false);
    states.set(id, { dn, text: String(attributes.get('description')) });
  }
  return states;
}

/** Reads the entries of all writers. */
export async function findAll(client: RawClient): Promise<Found> {
  const { code, entries } = await client.search(SUFFIX, { scope: 'sub', attributes: ['description'] });
  expect(code).to.equal(0);
  return found(entries);
}

/** Takes the entries of all writers from LDIF. */
export function foundIn(ldif: string): Found {
  const states = new Map<string, NonNullable<State>>();
  for (const record of ldif.replaceAll('\n ', '').split('\n\n')) {
    const dn = /^dn: (.*)$/m.exec(record)?.[1] ?? '';
    const id = entryOf(dn);
    if (id !== undefined) states.set(id, { dn, text: /^description: (.*)$/m.exec(record)![1]! });
  }
  return states;
}
