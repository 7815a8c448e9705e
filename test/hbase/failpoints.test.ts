import { expect } from 'chai';
import { INDEX_BYTES, initDirectory, parseUuid } from '../../src/partition/index.js';
import { MASTER } from '../../src/partition/model/tables.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { unpackRow } from '../../src/store/row.js';
import { ACTOR, attributes, change, type Fixture, SUFFIX, SYSTEM, testSchema, uuidText } from '../partition/fixture.js';
import { openOver } from '../partition/kill.js';
import { inSoak } from '../rounds.js';
import { Mortal } from './mortal.js';
import { borrowTables, returnTables } from './recycled.js';
import { swept } from './swept.js';

/** Front ends alive at once. */
const TOGETHER = 6;
const PEOPLE = `ou=people,${SUFFIX}`;
const ELSEWHERE = `ou=elsewhere,${SUFFIX}`;
const PHOTO = Buffer.alloc(70_000, 0xd8);
const SHOWN = new Set(['cn', 'sn', 'ou', 'mail', 'description', 'userPassword', 'jpegPhoto']);
const INDEXED = ['title', 'roomNumber', 'carLicense', 'employeeType', 'l', 'street', 'departmentNumber'];
/** What an operation works on is called by a name of this form. */
const NAME = /r[a-z]+\d*z/;

interface Operation {
  /** Makes what it works on; gives what `run` wants. */
  readonly prepare?: (front: Fixture, name: string) => Promise<unknown>;
  readonly run: (front: Fixture, name: string, given: unknown) => Promise<unknown>;
}

const dnOf = (name: string): string => `cn=${name},${PEOPLE}`;
const person = (front: Fixture, name: string): Promise<Buffer> =>
  front.person(name, PEOPLE, { mail: `${name}@x`, description: 'first', jpegPhoto: PHOTO });

/** Of every kind that changes the directory, with values in rows, in indexes, and too large for either. */
const OPERATIONS: Readonly<Record<string, Operation>> = {
  add: { run: person },
  modify: {
    prepare: person,
    run: (front, name) =>
      front.modify(
        dnOf(name),
        change('replace', 'description', 'second'),
        change('replace', 'mail', `${name}@y`, `${name}@z`),
        change('replace', 'jpegPhoto', PHOTO.subarray(1)),
      ),
  },
  password: {
    prepare: person,
    run: (front, name) => front.modify(dnOf(name), change('replace', 'userPassword', '{CLEARTEXT}other')),
  },
  delete: { prepare: person, run: (front, name) => front.delete(dnOf(name)) },
  rename: { prepare: person, run: (front, name) => front.rename(dnOf(name), `cn=${name}-renamed`) },
  move: {
    prepare: person,
    run: (front, name) => front.rename(dnOf(name), `cn=${name}`, { newSuperior: ELSEWHERE }),
  },
  subtree: {
    async prepare(front, name) {
      await front.unit(name, PEOPLE);
      await front.person('child', `ou=${name},${PEOPLE}`);
    },
    run: (front, name) => front.rename(`ou=${name},${PEOPLE}`, `ou=${name}-moved`, { newSuperior: ELSEWHERE }),
  },
  restore: {
    async prepare(front, name) {
      const id = await person(front, name);
      await front.delete(dnOf(name));
      return uuidText(id);
    },
    run: (front, _, id) => front.partition.restore(parseUuid(String(id)), SYSTEM),
  },
  load: {
    async run({ partition }, name) {
      const all = ['', '-second', '-third'].map((end, line) => ({
        line,
        dn: dnOf(name + end),
        attributes: attributes({ objectClass: 'inetOrgPerson', cn: name + end, sn: name, jpegPhoto: PHOTO }),
      }));
      const onReject = ({ reason }: { reason: string }): void => {
        throw new Error(reason);
      };
      await partition.load(one(all), ACTOR, { continue: false, onReject });
    },
  },
};

async function* one<T>(value: T): AsyncGenerator<T> {
  yield value;
}

/** What the directory shows of each name, the name itself as NAME. */
async function shown(front: Fixture): Promise<Map<string, string>> {
  const lines: string[] = [];
  await front.partition.search(front.params({}), {
    entry: ({ dn, row }) => {
      const values = unpackRow(row).flatMap(({ family, qualifier, value }) => {
        const type = qualifier.toString('latin1', 0, qualifier.length - INDEX_BYTES);
        return family === MASTER.upAttributes && SHOWN.has(type) ? [`${type}=${value.toString('latin1')}`] : [];
      });
      lines.push(`${dn} ${values.sort().join(' ')}`);
    },
    reference: () => undefined,
  });
  for await (const { dn } of front.partition.deletedEntries()) lines.push(`deleted ${dn}`);
  const found = new Map<string, string>();
  for (const line of lines.sort()) {
    const name = NAME.exec(line)?.[0];
    if (name) found.set(name, `${found.get(name) ?? ''}${line.replaceAll(name, 'NAME')}\n`);
  }
  return found;
}

describe('a front end that dies at any point of any operation over HBase', () => {
  let settings: HBaseSettings;
  let store: HBaseStore;
  let front: Fixture;

  before(async function () {
    settings = await borrowTables(this);
    store = await openHBaseStore(settings);
    const directory = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
    await initDirectory(store, directory, testSchema());
    front = await openOver(store);
    await front.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
    await front.unit('people');
    await front.unit('elsewhere');
  });
  after(async () => {
    await front?.close();
    returnTables(settings);
  });

  /** Lets a front end do it that dies at this point, if it comes there; gives the points it passed. */
  async function death(name: string, { prepare, run }: Operation, point: string): Promise<readonly string[]> {
    const given = await prepare?.(front, name);
    const mortal = await Mortal.open(store.client, settings);
    await mortal.dies(point, (dying) => run(dying, name, given));
    return mortal.points;
  }

  it('leaves all of it or nothing: what was decided happens, what was not does not', async () => {
    const wanted = new Map<string, string>();
    const work: (() => Promise<void>)[] = [];
    for (const [kinds, [kind, operation]] of Object.entries(OPERATIONS).entries()) {
      await operation.prepare?.(front, `r${kind}z`);
      const living = `r${kind}livingz`;
      await operation.run(front, living, await operation.prepare?.(front, living));
      const points = await death(`r${kind}0z`, operation, '');
      const decided = points.findLastIndex((point) => point.startsWith('decide after'));
      expect(decided, `${kind}: ${points}`).to.be.greaterThan(0);
      for (const [at, point] of points.entries()) {
        if (!inSoak && at !== decided && at % 10 !== kinds % 10) continue;
        const name = `r${kind}${at + 1}z`;
        work.push(async () => {
          const passed = await death(name, operation, point);
          const died = passed.at(-1) === point;
          // A row that another had makes more points; how often a lock was tried is not the same every time.
          if (!died) expect(point, `${kind}: ${passed}`).to.match(/^lock|^read/);
          wanted.set(name, `r${kind}${at >= decided || !died ? '0' : ''}z`);
        });
      }
    }
    const next = work.values();
    await Promise.all(
      Array.from({ length: TOGETHER }, async () => {
        for (const one of next) await one();
      }),
    );
    await swept(store, settings, 1);
    const found = await shown(front);
    for (const kind of Object.keys(OPERATIONS)) {
      expect(found.get(`r${kind}livingz`), kind).not.to.equal(found.get(`r${kind}z`));
      expect(found.get(`r${kind}0z`), kind).to.equal(found.get(`r${kind}livingz`));
    }
    for (const [name, like] of wanted) expect(found.get(name), name).to.equal(found.get(like));
    await front.expectClean();
  });

  it('leaves an index that others complete, or none', async () => {
    const build = async ({ partition }: Fixture, attribute: string): Promise<void> => {
      await partition.addIndex(attribute, {});
      await partition.buildIndexes();
    };
    await front.person('indexed', PEOPLE, Object.fromEntries(INDEXED.map((type) => [type, 'here'])));
    const [first, ...others] = INDEXED;
    const counting = await Mortal.open(store.client, settings);
    await counting.dies('', (dying) => build(dying, first!));
    // How often a lock is tried is not the same every time.
    const points = counting.points.filter((point) => !/^lock|^read/.test(point));
    for (const [n, attribute] of others.entries()) {
      const mortal = await Mortal.open(store.client, settings);
      const point = points[Math.floor(((n + 0.5) * points.length) / others.length)]!;
      await mortal.dies(point, (dying) => build(dying, attribute));
      expect(mortal.points.at(-1), attribute).to.equal(point);
      await front.partition.refresh();
      await front.partition.buildIndexes();
    }
    const listed = front.partition.indexes().filter((index) => INDEXED.includes(index.attribute));
    expect(listed.length, `${points}`).to.be.greaterThan(2);
    for (const { attribute, state } of listed) {
      expect(state, attribute).to.equal('ready');
      const params = { filter: `(${attribute}=here)` };
      expect((await front.partition.explain(front.params(params))).plan, attribute).to.equal('index');
      expect(await front.find(params.filter)).to.deep.equal([`cn=indexed,${PEOPLE}`]);
    }
    await front.expectClean();
  });
});
