import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { Partition, parseUuid } from '../../src/partition/index.js';
import { rounds } from '../rounds.js';
import {
  change,
  ENGINES,
  type Fixture,
  openFixture,
  type Random,
  SUFFIX,
  SYSTEM,
  seeded,
  uuidText,
} from './fixture.js';
import { resultOf } from './fronts.js';
import { Model, type ModelEntry } from './model.js';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const TEXTS = ['red', 'green', 'blue', 'dark red', 'redder', 'ü', 'x'.repeat(600), 'x'.repeat(599) + 'y'];

/** Drives a directory and the model with the same random operations. */
class Twin {
  readonly fixture: Fixture;
  readonly random: Random;
  readonly model: Model;
  /** Entries as they were once, live or not: so that what is gone is asked for too. */
  readonly known: ModelEntry[];
  #added = 0;

  constructor(fixture: Fixture, random: Random, suffixId: Buffer) {
    this.fixture = fixture;
    this.random = random;
    this.model = new Model(uuidText(suffixId), SUFFIX);
    this.known = [this.model.root];
  }

  #any(): ModelEntry {
    if (this.random.chance(0.9)) return this.random.pick([...this.model.live.values()]);
    const once = this.random.pick(this.known);
    // Its name may be another's by now.
    const dn = this.model.dn(once);
    return [...this.model.live.values()].find((entry) => this.model.dn(entry) === dn) ?? once;
  }

  #rdn(): string {
    return `${this.random.pick(['cn', 'sn'])}=${this.random.pick(NAMES)}`;
  }

  async step(): Promise<void> {
    const dice = this.random.int(100);
    if (dice < 30) return this.#add();
    if (dice < 55) return this.#modify();
    if (dice < 70) return this.#rename();
    if (dice < 82) return this.#delete();
    if (dice < 88) return this.#restore();
    return this.#search();
  }

  async #add(): Promise<void> {
    const parent = this.#any();
    const rdn = this.#rdn();
    const uuid = uuidText(
      Buffer.from(
        `${(++this.#added).toString(16).padStart(8, '0')}${'0'.repeat(16)}${this.random
          .int(2 ** 31)
          .toString(16)
          .padStart(8, '0')}`,
        'hex',
      ),
    );
    const [type, name] = rdn.split('=') as [string, string];
    const values = new Map([
      ['cn', new Set(['n'])],
      ['sn', new Set(['n'])],
    ]);
    values.get(type)!.add(name);
    if (this.random.chance(0.4)) values.set('description', new Set([this.random.pick(TEXTS)]));
    const given = Object.fromEntries([...values].map(([t, set]) => [t, [...set]]));
    const wanted = this.model.live.has(parent.uuid) ? this.model.add(uuid, parent, rdn, values) : 'noSuchObject';
    const dn = `${rdn},${this.model.dn(parent)}`;
    const got = await resultOf(
      this.fixture.add(dn, { objectClass: 'inetOrgPerson', ...given, entryUUID: uuid }, SYSTEM),
    );
    this.#same(`add ${dn}`, got, wanted, parent);
    if (wanted === 'success') this.known.push(this.model.live.get(uuid)!);
  }

  async #modify(): Promise<void> {
    const entry = this.#any();
    if (entry === this.model.root) return;
    const operation = this.random.pick(['add', 'delete', 'replace'] as const);
    const type = this.random.pick(['description', 'description', 'mail', 'cn', 'Title']);
    const source = type === 'cn' ? NAMES : type === 'mail' ? ['a@x', 'b@x', 'c@y'] : TEXTS;
    const count = this.random.int(3) + (operation === 'add' || type === 'cn' ? 1 : 0);
    const texts = [...new Set(Array.from({ length: count }, () => this.random.pick(source)))];
    if (type === 'cn' && operation === 'delete' && entry.values.get('cn')!.size === 1) return;
    const one: Modification = change(
      operation,
      type,
      ...texts.map((t) => (this.random.chance(0.3) ? t.toUpperCase() : t)),
    );
    if (type === 'cn' && operation !== 'add' && !this.#keepsOne(entry, one)) return;
    const dn = this.model.dn(entry);
    const wanted = this.model.modify(entry, one);
    this.#same(`${operation} ${type} of ${dn}`, await resultOf(this.fixture.modify(dn, one)), wanted, entry);
  }

  /** The schema wants a cn: the model knows no schema. */
  #keepsOne(entry: ModelEntry, { operation, attribute }: Modification): boolean {
    if (operation === 'replace') return attribute.values.length > 0;
    const gone = new Set(attribute.values.map((v) => v.toString().toLowerCase()));
    return [...entry.values.get('cn')!].some((v) => !gone.has(v));
  }

  async #rename(): Promise<void> {
    const entry = this.#any();
    const parent = this.random.chance(0.5) ? this.#any() : undefined;
    const rdn = this.random.chance(0.8) ? this.#rdn() : entry.rdn;
    if (!entry.parent) return;
    const [oldType, oldValue] = entry.rdn.split('=') as [string, string];
    // Never the last value of what the schema wants.
    const deleteOld =
      this.random.chance(0.5) &&
      (entry.values.get(oldType)!.size > 1 || rdn.startsWith(`${oldType}=`)) &&
      oldValue !== 'n';
    const dn = this.model.dn(entry);
    const newSuperior = parent && this.model.dn(parent);
    const wanted = this.model.rename(entry, rdn, deleteOld, parent);
    const got = await resultOf(
      this.fixture.rename(dn, rdn, { deleteOldRdn: deleteOld, ...(newSuperior === undefined ? {} : { newSuperior }) }),
    );
    this.#same(`rename ${dn} to ${rdn} below ${newSuperior ?? 'its parent'}`, got, wanted, entry, parent);
  }

  async #delete(): Promise<void> {
    const entry = this.#any();
    if (entry === this.model.root) return;
    const dn = this.model.dn(entry);
    const wanted = this.model.remove(entry);
    this.#same(`delete ${dn}`, await resultOf(this.fixture.delete(dn)), wanted, entry);
  }

  async #restore(): Promise<void> {
    const ids = [...this.model.deleted.keys()];
    const uuid = ids.length > 0 && this.random.chance(0.9) ? this.random.pick(ids) : this.random.pick(this.known).uuid;
    const wanted = this.model.restore(uuid);
    const got = await resultOf(this.fixture.partition.restore(parseUuid(uuid), SYSTEM));
    expect(got, `restore ${uuid}`).to.equal(wanted);
  }

  async #search(): Promise<void> {
    const base = this.random.pick([...this.model.live.values()]);
    const scope = this.random.pick(['base', 'one', 'sub', 'subordinate'] as const);
    const [filter, matches] = this.#filter();
    const dn = this.model.dn(base);
    const wanted = this.model.search(base, scope, matches);
    expect(await this.fixture.find(filter, { base: dn, scope }), `search ${dn} ${scope} ${filter}`).to.deep.equal(
      wanted,
    );
  }

  #filter(): [string, (entry: ModelEntry) => boolean] {
    const has = (type: string, test: (value: string) => boolean) => (e: ModelEntry) =>
      [...(e.values.get(type) ?? [])].some(test);
    const name = this.random.pick(NAMES);
    const text = this.random.pick(TEXTS);
    switch (this.random.int(6)) {
      case 0:
        return [`(cn=${name})`, has('cn', (v) => v === name)];
      case 1:
        return [`(description=${text})`, has('description', (v) => v === text)];
      case 2:
        return ['(description=*re*)', has('description', (v) => v.includes('re'))];
      case 3:
        return [`(&(sn=*)(!(cn=${name})))`, (e) => has('sn', () => true)(e) && !has('cn', (v) => v === name)(e)];
      case 4:
        return [
          `(|(cn=${name})(sn=${name}))`,
          (e) => has('cn', (v) => v === name)(e) || has('sn', (v) => v === name)(e),
        ];
      default:
        return ['(mail=*@x)', has('mail', (v) => v.endsWith('@x'))];
    }
  }

  /** Of two reasons to refuse, the directory may give another than the model. */
  #same(what: string, got: string, wanted: string, ...used: (ModelEntry | undefined)[]): void {
    for (const entry of used) {
      if (entry && !this.model.live.has(entry.uuid) && wanted === 'noSuchObject') {
        expect(got, what).to.be.oneOf(['noSuchObject', 'unwillingToPerform']);
        return;
      }
    }
    expect(got, what).to.equal(wanted);
  }

  /** The whole tree and every value. */
  async compare(): Promise<void> {
    const all = await this.fixture.search({});
    expect(all.dns.sort()).to.deep.equal([...this.model.live.values()].map((e) => this.model.dn(e)).sort());
    for (const entry of this.model.live.values()) {
      const read = await this.fixture.read(this.model.dn(entry));
      expect(uuidText(read.id)).to.equal(entry.uuid);
      for (const [type, values] of entry.values) {
        const stored = read.attributes
          .filter((a) => a.description.toLowerCase() === type)
          .flatMap((a) => a.values.map((v) => v.toString().toLowerCase()));
        expect(stored.sort(), `${type} of ${read.dn}`).to.deep.equal([...values].sort());
      }
    }
  }
}

for (const engine of ENGINES) {
  /** Each takes HBase some forty times as long. */
  const operations = engine === 'hbase' ? rounds(200, 1500) : rounds(400, 1500);
  describe(`model (${engine})`, function () {
    this.timeout(engine === 'hbase' ? 300_000 : 120_000);

    it(`${operations} random operations leave what a plain tree would hold`, () =>
      seeded(async (random) => {
        let fixture = await openFixture(engine);
        await fixture.partition.addIndex('description', { substring: true });
        await fixture.partition.buildIndexes();
        const twin = new Twin(fixture, random, (await fixture.read(SUFFIX)).id);
        for (let n = 1; n <= operations; n++) {
          await twin.step();
          // Others of the same store, with caches of their own, go on in turn.
          if (n % 100 === 0)
            fixture = Object.assign(fixture, {
              partition: await Partition.open(fixture.store, fixture.partition.schema),
            });
          if (n % 250 === 0) {
            await fixture.expectClean();
            await twin.compare();
          }
        }
        await fixture.expectClean();
        await twin.compare();
        expect(twin.model.live.size).to.be.greaterThan(20);
        await fixture.close();
      }));

    it('the same by two front ends of one store in turn', () =>
      seeded(async (random) => {
        const fixture = await openFixture(engine);
        const fronts = [fixture.partition, await Partition.open(fixture.store, fixture.partition.schema)];
        const twin = new Twin(fixture, random, (await fixture.read(SUFFIX)).id);
        for (let n = 1; n <= operations / 3; n++) {
          Object.assign(fixture, { partition: random.pick(fronts) });
          await twin.step();
          // A front end follows another's renames with its next turn of the event loop.
          await new Promise((resolve) => setImmediate(resolve));
        }
        await fixture.expectClean();
        await twin.compare();
        await fixture.close();
      }));
  });
}
