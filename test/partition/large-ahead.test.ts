import { expect } from 'chai';
import type { PartialAttribute } from '../../src/ldap/ldap-types.js';
import { Partition, parseUuid } from '../../src/partition/index.js';
import { DELETED_TABLE, MASTER, MASTER_TABLE } from '../../src/partition/model/tables.js';
import { AHEAD_BYTES } from '../../src/partition/model/thresholds.js';
import { isMark } from '../../src/partition/write/large-ahead.js';
import type { Plan, Store } from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';
import { attributes, change, Fixture, openFixture, refused, SUFFIX, SYSTEM, uuidText } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const ANN = `cn=ann,${SUFFIX}`;
/** Two commits of chunks. */
const LENGTH = AHEAD_BYTES + 200_000;
const FOREVER_AGO = Buffer.alloc(8);

function photo(seed: number): Buffer {
  const bytes = Buffer.alloc(LENGTH, seed);
  for (let at = 0; at < LENGTH; at += 1000) bytes[at] = (at / 1000) % 251;
  return bytes;
}

type Look = (plan: Plan) => Promise<void> | void;

/** The store, but that `before` and `after` are called around each commit. */
function watched(store: Store, before: Look, after: Look = () => undefined): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'commit') {
        return async (plan: Plan): Promise<void> => {
          await before(plan);
          await target.commit(plan);
          await after(plan);
        };
      }
      const member = Reflect.get(target, name) as unknown;
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}

/** Bytes of values in a plan. */
function bytesOf({ steps }: Plan): number {
  const cells = steps.flatMap((step) => ('append' in step ? step.append : (step.put ?? [])));
  return cells.reduce((sum, { value }) => sum + value.length, 0);
}

/** The values of the photo attribute; none where the entry is not there. */
async function photosOf(fixture: Fixture): Promise<readonly Buffer[]> {
  if ((await fixture.find('(cn=ann)')).length === 0) return [];
  const { attributes: all } = await fixture.read(ANN, true);
  return all.find((a) => a.description === 'jpegPhoto')?.values ?? [];
}

async function load(fixture: Fixture, values: readonly PartialAttribute[]): Promise<void> {
  async function* entries() {
    yield [{ line: 1, dn: ANN, attributes: values }];
  }
  const onReject = ({ reason }: { reason: string }): void => {
    throw new Error(reason);
  };
  await fixture.partition.load(entries(), SYSTEM, { continue: false, onReject });
}

for (const engine of NEAR_ENGINES) {
  describe(`values written ahead of their plan (${engine})`, () => {
    const [first, second] = [photo(1), photo(2)];
    const person = attributes({ objectClass: 'inetOrgPerson', cn: 'ann', sn: 'ann', jpegPhoto: first });
    let fixture: Fixture;

    before(async () => {
      fixture = await openFixture(engine);
    });
    afterEach(async () => {
      await fixture.expectClean();
    });
    after(async () => {
      await fixture.close();
    });

    /** Another front end, whose commits are watched. */
    async function front(before: Look, after?: Look): Promise<Fixture> {
      const store = watched(fixture.store, before, after);
      return new Fixture(store, await Partition.open(store, fixture.partition.schema), undefined);
    }

    async function expectPhotos(...wanted: Buffer[]): Promise<void> {
      const found = await photosOf(fixture);
      expect(found.map((f) => wanted.findIndex((w) => w.equals(f)))).to.deep.equal([...wanted.keys()]);
    }

    /** Takes ann away for good. */
    async function forget(): Promise<void> {
      if ((await fixture.find('(cn=ann)')).length > 0) await fixture.delete(ANN);
      await fixture.partition.purge(Date.now() + 60_000);
    }

    /** What is written ahead by now counts as left behind. */
    async function age(): Promise<void> {
      for (const table of [MASTER_TABLE.name, DELETED_TABLE.name]) {
        for (const key of await fixture.store.keysOfCells(table, MASTER.largeValues, 100)) {
          const marks = (await fixture.store.namesOfCells(table, key, MASTER.largeValues)).filter(isMark);
          const put = marks.map((qualifier) => ({ family: MASTER.largeValues, qualifier, value: FOREVER_AGO }));
          if (put.length > 0) await fixture.store.commit({ steps: [{ table, key, put }], decisive: 0 });
        }
      }
    }

    /** Every way that such a value takes, from nothing to nothing. */
    const WAYS: Readonly<
      Record<string, { from?: () => Promise<unknown>; run: (f: Fixture, given: unknown) => Promise<unknown> }>
    > = {
      add: { run: (f) => f.partition.add(f.dn(ANN), person, SYSTEM) },
      load: { run: (f) => load(f, person) },
      replace: { from: () => load(fixture, person), run: (f) => f.modify(ANN, change('replace', 'jpegPhoto', second)) },
      'a first value': {
        from: () => load(fixture, person.slice(0, -1)),
        run: (f) => f.modify(ANN, change('add', 'jpegPhoto', second)),
      },
      delete: { from: () => load(fixture, person), run: (f) => f.delete(ANN) },
      restore: {
        async from() {
          await load(fixture, person);
          const { id } = await fixture.read(ANN);
          await fixture.delete(ANN);
          return uuidText(id);
        },
        run: (f, id) => f.partition.restore(parseUuid(String(id)), SYSTEM),
      },
    };
    const AFTER: Readonly<Record<string, readonly Buffer[]>> = {
      add: [first],
      load: [first],
      replace: [second],
      'a first value': [second],
      delete: [],
      restore: [first],
    };

    for (const [name, { from, run }] of Object.entries(WAYS)) {
      it(`${name}: some chunks at a time; a front end that dies at any commit leaves chunks that repair removes`, async () => {
        const given = await from?.();
        const before = await photosOf(fixture);
        const sizes: number[] = [];
        let dead = false;
        let left = 0;
        const dying = await front((plan) => {
          if (dead || left-- === 0) {
            dead = true;
            throw new StoreError('unavailable', 'dead');
          }
          sizes.push(bytesOf(plan));
        });
        let orphans = 0;
        let died = 0;
        for (let lives = 0; ; lives++) {
          [dead, left] = [false, lives];
          sizes.length = 0;
          const failed = await run(dying, given).then(
            () => false,
            () => true,
          );
          if (!failed) break;
          died++;
          await expectPhotos(...before);
          // Not taken for left behind while it may be coming.
          await fixture.expectClean();
          await age();
          const breaches = await fixture.breaches();
          expect(breaches.filter(({ invariant }) => invariant !== 'large')).to.deep.equal([]);
          if (breaches.length > 0) orphans++;
          await fixture.partition.repair();
          await fixture.expectClean();
        }
        expect(died, 'the mark, the chunks in two parts, the plan').to.equal(4);
        expect(orphans).to.equal(3);
        expect(Math.max(...sizes)).to.be.at.most(AHEAD_BYTES);
        await expectPhotos(...AFTER[name]!);
        await fixture.expectClean();
        await forget();
      });
    }

    it('what was swept while it was being written is written again', async () => {
      let commits = 0;
      const swept = await front(async () => {
        if (++commits !== 3) return;
        await age();
        expect(await fixture.breaches()).to.have.length(1);
        await fixture.partition.repair();
      });
      await swept.partition.add(swept.dn(ANN), person, SYSTEM);
      expect(commits, 'begun again').to.be.greaterThan(6);
      await expectPhotos(first);
      commits = 1;
      await swept.modify(ANN, change('replace', 'jpegPhoto', second));
      await expectPhotos(second);
      commits = 1;
      await swept.delete(ANN);
      await forget();
    });

    it('what is refused in the end is taken away', async () => {
      let commits = 0;
      const late = await front(async () => {
        // The name is taken, the entry gone, while the chunks are on their way.
        if (++commits === 2) await fixture.person('ann');
      });
      await refused('entryAlreadyExists', late.partition.add(late.dn(ANN), person, SYSTEM));
      await age();
      await fixture.expectClean();
      const gone = await front(async (plan) => {
        if (bytesOf(plan) === AHEAD_BYTES) await fixture.delete(ANN);
      });
      await refused('noSuchObject', gone.modify(ANN, change('replace', 'jpegPhoto', second)));
      await age();
      await forget();
    });

    it('what became visible stays, though its writer was never told', async () => {
      const cut = await front(
        () => undefined,
        ({ steps }) => {
          if (steps.length > 1) throw new StoreError('unavailable', 'no answer', { applied: 'unknown' });
        },
      );
      await refused('unavailable', cut.partition.add(cut.dn(ANN), person, SYSTEM));
      await expectPhotos(first);
      await refused('unavailable', cut.modify(ANN, change('replace', 'jpegPhoto', second)));
      await expectPhotos(second);
      await age();
      await fixture.expectClean();
      await forget();
    });

    it('writers and readers of one value: always one of those written', async () => {
      await load(fixture, person);
      const all = [first, second, photo(3)];
      let over = false;
      const write = async (from: number): Promise<void> => {
        for (let n = 0; n < 3; n++) await fixture.modify(ANN, change('replace', 'jpegPhoto', all[(from + n) % 3]!));
      };
      const read = async (): Promise<void> => {
        for (; !over; await new Promise(setImmediate)) {
          const found = await photosOf(fixture);
          expect(found.map((f) => all.some((one) => one.equals(f)))).to.deep.equal([true]);
        }
      };
      await Promise.all([
        Promise.all([write(0), write(1)]).finally(() => {
          over = true;
        }),
        read(),
      ]);
      await age();
      await fixture.expectClean();
      await forget();
    });

    it('an entry deleted twice under one entryUUID keeps the later one alone', async () => {
      await load(fixture, person);
      const id = uuidText((await fixture.read(ANN)).id);
      await fixture.delete(ANN);
      await load(fixture, [
        ...attributes({ objectClass: 'inetOrgPerson', cn: 'ann', sn: 'ann', jpegPhoto: second, entryUUID: id }),
      ]);
      await fixture.delete(ANN);
      await fixture.expectClean();
      await fixture.partition.restore(parseUuid(id), SYSTEM);
      await expectPhotos(second);
      await forget();
    });
  });
}
