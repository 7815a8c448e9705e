import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { FAILPOINTS, type FailpointName } from '../../src/store/lmdb/failpoint.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { unpackRow } from '../../src/store/row.js';
import { inSoak } from '../rounds.js';
import { ACTOR, Fixture, SUFFIX, testSchema } from './fixture.js';
import { OPERATIONS, PEOPLE } from './lmdb-failpoints-child.js';

const CHILD = fileURLToPath(new URL('./lmdb-failpoints-child.js', import.meta.url));

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

describe('a process that is killed at each failpoint of LMDB', function () {
  this.timeout(600_000);
  let base: string;
  let before_: string;
  const after_ = new Map<string, string>();

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
  function copy(): string {
    const folder = mkdtempSync(join(base, 'trial-'));
    cpSync(join(base, 'data'), folder, { recursive: true });
    return folder;
  }

  /** Does it in a process of its own on a folder of its own; gives the folder. */
  function done(operation: string, ...point: string[]): { folder: string; killed: boolean } {
    const folder = copy();
    const { signal, status, stderr } = spawnSync(process.execPath, [CHILD, folder, operation, ...point], {
      encoding: 'utf8',
    });
    expect(signal === 'SIGKILL' || status === 0, `${operation} ${point.join(' ')}: ${stderr}`).to.equal(true);
    return { folder, killed: signal === 'SIGKILL' };
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

  async function afterOf(operation: string): Promise<string> {
    let known = after_.get(operation);
    if (known === undefined) {
      known = await shown(done(operation).folder);
      after_.set(operation, known);
    }
    return known;
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
          const { folder, killed } = done(operation, point, String(nth));
          if (nth === 1) expect(killed, `${operation} comes to it`).to.equal(true);
          const found = await shown(folder);
          rmSync(folder, { recursive: true });
          const durable = !killed || point.endsWith('durable');
          const wanted = ONE_PLAN.has(operation)
            ? [durable ? await afterOf(operation) : before_]
            : [before_, await afterOf(operation)];
          expect(found, `${operation}, pass ${nth}`).to.be.oneOf(wanted);
          if (!killed) break;
        }
      }
    });
  }
});
