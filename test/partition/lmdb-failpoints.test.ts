import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { FAILPOINTS, type FailpointName } from '../../src/store/lmdb/lmdb-options.js';
import { unpackRow } from '../../src/store/row.js';
import { inSoak } from '../rounds.js';
import { ACTOR, Fixture, SUFFIX, testSchema } from './fixture.js';
import { OPERATIONS, PEOPLE, run } from './lmdb-failpoints-child.js';

/** Operations that come to a failpoint; the first of them alone but for `npm run soak`. */
const COMING: Readonly<Record<FailpointName, readonly string[]>> = {
  'commit begin': ['add', 'modify', 'photo', 'group', 'rename', 'move', 'delete', 'index', 'drop', 'beside'],
  'commit staged': ['modify', 'add', 'photo', 'group', 'rename', 'move', 'delete', 'index', 'drop', 'beside'],
  'commit written': ['move', 'add', 'modify', 'photo', 'group', 'rename', 'delete', 'index', 'drop', 'beside'],
  'commit durable': ['rename', 'add', 'modify', 'photo', 'group', 'move', 'delete', 'index', 'drop', 'beside'],
  'tables changed': ['beside'],
  'table created': ['index'],
  'table dropped': ['drop'],
  'ingest begin': ['load'],
  'ingest rows': ['load'],
  'ingest written': ['load'],
  'ingest durable': ['load'],
};
/** Operations of one plan, which is there or not as the failpoint says. */
const ONE_PLAN = new Set(['add', 'modify', 'group', 'rename', 'move', 'delete', 'load']);

/** What a process that is killed leaves are its files as they are then: a copy of them at the failpoint. */
describe('a process that ends at each failpoint of LMDB', function () {
  this.timeout(600_000);
  let base: string;
  let before_: string;

  before(async () => {
    base = mkdtempSync(join(tmpdir(), 'rowan-failpoints-'));
    const store = await openLmdbStore(join(base, 'data'));
    const directory = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
    await initDirectory(store, directory, testSchema());
    const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
    await fixture.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
    await fixture.unit('people');
    await fixture.unit('other');
    for (const name of ['ann', 'bob'])
      await fixture.person(name, PEOPLE, { description: 'first', mail: `${name}@x`, title: 'here' });
    await fixture.partition.addIndex('description', {});
    await fixture.partition.buildIndexes();
    await fixture.close();
    before_ = await shown(copy());
  });
  after(() => rmSync(base, { recursive: true }));

  /** Another folder with the same. */
  function copy(from = join(base, 'data')): string {
    const folder = mkdtempSync(join(base, 'trial-'));
    cpSync(from, folder, { recursive: true });
    return folder;
  }

  /** Does it in a folder of its own, and copies that where it passes the point for the nth time. */
  async function done(operation: string, point: FailpointName, nth: number): Promise<{ folder: string; at?: string }> {
    const folder = copy();
    let passed = 0;
    let at: string | undefined;
    await run(folder, operation, (name) => {
      if (name === point && ++passed === nth) at = copy(folder);
    });
    return { folder, ...(at && { at }) };
  }

  /** All that the directory shows, indexes aside, after what was begun was finished; check finds no breach. */
  async function shown(folder: string): Promise<string> {
    const store = await openLmdbStore(folder);
    const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
    await fixture.expectClean();
    await fixture.partition.buildIndexes();
    const lines: string[] = [];
    await fixture.partition.search(fixture.params({}), {
      entry: ({ dn, row }) => {
        const names = unpackRow(row).map(({ qualifier, value }) =>
          /^(mail|description|jpegPhoto|member|cn)/.test(qualifier.toString('latin1'))
            ? `${qualifier.toString('latin1')}=${value.length > 50 ? value.length : value.toString('latin1')}`
            : '',
        );
        lines.push(`${dn} ${names.join(' ')}`);
      },
      reference: () => undefined,
    });
    for await (const { dn } of fixture.partition.deletedEntries()) lines.push(`deleted ${dn}`);
    // Written to as before, by the next process.
    await fixture.person('next', PEOPLE.replace('people', 'other'));
    await fixture.expectClean();
    await fixture.close();
    return lines.sort().join('\n');
  }

  it('names each of them', () => {
    expect(Object.keys(COMING)).to.deep.equal([...FAILPOINTS]);
    expect(Object.keys(OPERATIONS)).to.include.members(Object.values(COMING).flat());
  });

  for (const point of FAILPOINTS) {
    it(`${point}: all of it or nothing, and nothing acknowledged is lost`, async () => {
      const [first, ...others] = COMING[point];
      for (const operation of inSoak ? [first!, ...others] : [first!]) {
        for (let nth = 1; nth <= (inSoak ? 3 : 1); nth++) {
          const { folder, at } = await done(operation, point, nth);
          if (nth === 1) expect(at, `${operation} comes to it`).to.be.a('string');
          if (!at) break;
          // What comes behind its plan brings references up to date.
          const isPlan = ONE_PLAN.has(operation) && nth === 1;
          const after = !isPlan || point.endsWith('durable') ? await shown(folder) : undefined;
          const wanted = isPlan ? [after ?? before_] : [before_, after];
          expect(await shown(at), `${operation}, pass ${nth}`).to.be.oneOf(wanted);
          for (const each of [folder, at]) rmSync(each, { recursive: true });
        }
      }
    });
  }
});
