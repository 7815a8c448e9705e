import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { rounds } from '../rounds.js';
import type { Answer } from './damaged-pages-child.js';
import { ACTOR, attributes, Fixture, type Random, SUFFIX, seeded, testSchema } from './fixture.js';

const CHILD = fileURLToPath(new URL('./damaged-pages-child.js', import.meta.url));
const PAGE = 8192;
const HEADER = 24;
/** `mp_flags` of a page of LMDB, and those of a page with rows: a leaf, or the first of a run for one long value. */
const FLAGS_AT = 18;
const LEAF = 0x02;
const OVERFLOW = 0x04;
const PEOPLE = `ou=people,${SUFFIX}`;
const COUNT = 600;
const TRIALS = rounds(6, 40);

/** By index, by scan, by several terms; each finds some entries of an undamaged directory. */
const FILTERS = [
  '(objectClass=*)',
  '(description=*)',
  '(mail=*)',
  '(&(objectClass=person)(l=here))',
  '(cn=p1*)',
  '(|(cn=p17)(cn=p234)(cn=p499))',
  ...Array.from({ length: 12 }, (_, i) => `(cn=p${i * 41})`),
];

/** Numbers of the pages of the data file that hold rows. */
function rowPages(data: Buffer): number[] {
  const pages: number[] = [];
  for (let page = 2; (page + 1) * PAGE <= data.length; page++) {
    const flags = data.readUInt16LE(page * PAGE + FLAGS_AT);
    if (Number(data.readBigUInt64LE(page * PAGE)) === page && (flags & (LEAF | OVERFLOW)) !== 0) pages.push(page);
  }
  return pages;
}

function randomBytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random.int(256)));
}

/** Ways in which a page is spoilt: as a whole, but for its header, in a sector, in a few bytes, by zeros. */
function spoil(data: Buffer, page: number, random: Random): string {
  const at = page * PAGE;
  const kind = random.pick(['page', 'body', 'sector', 'bytes', 'zeros'] as const);
  switch (kind) {
    case 'page':
      randomBytes(random, PAGE).copy(data, at);
      break;
    case 'body':
      randomBytes(random, PAGE - HEADER).copy(data, at + HEADER);
      break;
    case 'sector':
      randomBytes(random, 512).copy(data, at + 512 * (1 + random.int(15)));
      break;
    case 'bytes':
      for (let n = 0; n < 8; n++) data[at + HEADER + random.int(PAGE - HEADER)]! ^= 1 << random.int(8);
      break;
    case 'zeros':
      data.fill(0, at + HEADER, at + PAGE);
      break;
  }
  return kind;
}

describe('pages that are overwritten', function () {
  this.timeout(600_000);
  let folder: string;
  let whole: Buffer;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-pages-'));
    const store = await openLmdbStore(join(folder, 'sound'));
    const directory = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
    await initDirectory(store, directory, testSchema());
    const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
    await fixture.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
    await fixture.unit('people');
    const people = Array.from({ length: COUNT }, (_, line) => ({
      line,
      dn: `cn=p${line},${PEOPLE}`,
      attributes: attributes({
        objectClass: 'inetOrgPerson',
        cn: `p${line}`,
        sn: 'Person',
        l: 'here',
        mail: `p${line}@example.com`,
        description: `person ${line} `.repeat(20),
      }),
    }));
    async function* all() {
      yield people;
    }
    await fixture.partition.load(all(), ACTOR, { continue: false, onReject: ({ reason }) => expect.fail(reason) });
    await fixture.close();
    whole = readFileSync(join(folder, 'sound', 'data.mdb'));
  });
  after(() => rmSync(folder, { recursive: true }));

  /** Of each of these folders; one process looks at them until it dies of what is in one, then another at the rest. */
  function answers(names: readonly string[]): Answer[][] {
    const searches = FILTERS.length * 2;
    const all: Answer[][] = [];
    while (all.length < names.length) {
      const folders = names.slice(all.length).map((name) => join(folder, name));
      const args = [CHILD, JSON.stringify(folders), JSON.stringify(FILTERS)];
      const { stdout, stderr, status, signal } = spawnSync(process.execPath, args, { encoding: 'utf8' });
      expect(signal !== null || status === 0, stderr).to.equal(true);
      const lines = stdout.split('\n').slice(0, -1);
      const count = signal ? Math.max(1, Math.ceil(lines.length / searches)) : folders.length;
      if (!signal) expect(lines.length).to.equal(count * searches);
      for (let at = 0; at < count; at++)
        all.push(lines.slice(at * searches, (at + 1) * searches).map((line) => JSON.parse(line) as Answer));
    }
    return all;
  }

  it(`end a search with an error, or change nothing of its answer (${TRIALS} trials)`, () =>
    seeded(async (random) => {
      const pages = rowPages(whole);
      expect(pages.length).to.be.greaterThan(100);
      const trials = Array.from({ length: TRIALS }, (_, trial) => {
        const name = `trial${trial}`;
        const data = Buffer.from(whole);
        const done = Array.from({ length: 1 + random.int(3) }, () => {
          const page = random.pick(pages);
          return `${page} ${spoil(data, page, random)}`;
        });
        mkdirSync(join(folder, name));
        copyFileSync(join(folder, 'sound', 'rowan.json'), join(folder, name, 'rowan.json'));
        writeFileSync(join(folder, name, 'data.mdb'), data);
        return { name, done };
      });
      const [sound = [], ...found] = answers(['sound', ...trials.map(({ name }) => name)]);
      expect(sound.map(({ entries }) => entries)).to.include.members([COUNT + 2, COUNT, 1, 3]);
      let errors = 0;
      for (const [trial, { done }] of trials.entries()) {
        // What is missing at the end is what the process was about when it died.
        for (const [i, answer] of found[trial]!.entries()) {
          const where = `trial ${trial}, pages ${done.join(', ')}, ${FILTERS[Math.floor(i / 2)]}, answer ${i}`;
          if (answer.error === undefined) expect(answer, where).to.deep.equal(sound[i]);
          else errors++;
        }
        if (found[trial]!.length < sound.length) errors++;
      }
      expect(errors, 'some pages were read').to.be.greaterThan(0);
    }));
});
