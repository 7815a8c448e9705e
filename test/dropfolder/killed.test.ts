import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { freshPrefix, hbase } from '../hbase/server.js';
import { type Fixture, type Random, SUFFIX, seeded } from '../partition/fixture.js';
import { openOver, prepare } from '../partition/kill.js';
import { rounds } from '../rounds.js';
import { CLAIMANT, type ClaimantArgs } from './claimant-child.js';
import { Drop, dropRows } from './drop.js';

const COUNTERS = 5;
const counterDn = (k: number) => `uid=counter-${k},${SUFFIX}`;

/** What is to come of the files. */
interface Expected {
  readonly counters: number[];
  /** DNs of entries. */
  readonly added: string[];
  /** By id of the file: records, and those of them that are refused. */
  readonly files: Map<string, { readonly records: number; readonly refused: number }>;
}

/** Files of 1 to 20 records: what is done twice is seen, since it counts twice, or is refused. */
function dropFiles(drop: Drop, count: number, random: Random): Expected {
  const counters = new Array<number>(COUNTERS).fill(0);
  const added: string[] = [];
  const files = new Map<string, { records: number; refused: number }>();
  for (let i = 0; i < count; i++) {
    const records = 1 + random.int(20);
    let refused = 0;
    let text = '';
    for (let j = 0; j < records; j++) {
      const dn = `ou=f${i}-${j},${SUFFIX}`;
      if (random.chance(0.6)) {
        const k = random.int(COUNTERS);
        counters[k]!++;
        text += `dn: ${counterDn(k)}\nchangetype: modify\nincrement: uidNumber\nuidNumber: 1\n-\n\n`;
      } else if (random.chance(0.9)) {
        added.push(dn);
        text += `dn: ${dn}\nobjectClass: organizationalUnit\nou: f${i}-${j}\n\n`;
      } else {
        refused++;
        text += `dn: ${dn}\nchangetype: delete\n\n`;
      }
    }
    files.set(`f${i}`, { records, refused });
    drop.drop(`${random.int(10)}.f${i}.T`, text);
  }
  return { counters, added, files };
}

async function makeCounters(fixture: Fixture): Promise<void> {
  const objectClass = ['account', 'posixAccount'];
  const values = { objectClass, uidNumber: '0', gidNumber: '0', homeDirectory: '/' };
  for (let k = 0; k < COUNTERS; k++)
    await fixture.add(counterDn(k), { ...values, uid: `counter-${k}`, cn: `counter-${k}` });
}

/** Claimants that kill themselves, each of which another takes the place of, until no file is left. */
class Claimants {
  readonly #args: Omit<ClaimantArgs, 'commits' | 'after'>;
  readonly #random: Random;
  readonly #commits: number;
  readonly #running = new Set<ChildProcess>();
  kills = 0;
  errors = '';

  constructor(args: Omit<ClaimantArgs, 'commits' | 'after'>, random: Random, commits: number) {
    this.#args = args;
    this.#random = random;
    this.#commits = commits;
  }

  async work(processes: number, isDone: () => boolean): Promise<void> {
    try {
      while (!isDone()) {
        while (this.#running.size < processes) this.#start();
        if (this.errors.includes('Error')) throw new Error(this.errors);
        await sleep(20);
      }
      await Promise.all([...this.#running].map((child) => ended(child, 'SIGTERM')));
    } finally {
      for (const child of this.#running) child.kill('SIGKILL');
    }
  }

  #start(): void {
    const commits = 1 + this.#random.int(2 * this.#commits);
    // What comes behind a commit is moves of files.
    const after = this.#random.chance(0.5) ? 0 : 1 + this.#random.int(10);
    const child = spawn(process.execPath, [CLAIMANT, JSON.stringify({ ...this.#args, commits, after })], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#running.add(child);
    child.stderr!.on('data', (data) => (this.errors += data));
    child.once('exit', (_, signal) => {
      this.#running.delete(child);
      if (signal === 'SIGKILL') this.kills++;
    });
  }
}

function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill(signal);
  });
}

async function expectOnce(fixture: Fixture, drop: Drop, expected: Expected): Promise<void> {
  for (const [k, count] of expected.counters.entries())
    expect(await fixture.values(counterDn(k), 'uidNumber'), `counter ${k}`).to.deep.equal([String(count)]);
  expect(await fixture.find('(ou=f*)')).to.deep.equal([...expected.added].sort());
  const receipts = drop.receipts();
  expect(receipts.map(({ id }) => id).sort()).to.deep.equal([...expected.files.keys()].sort());
  for (const { id, result, records, applied, refused, errors } of receipts) {
    const file = expected.files.get(id)!;
    expect({ id, records, applied, refused }).to.deep.equal({ id, ...file, applied: file.records - file.refused });
    expect(result).to.equal(file.refused > 0 ? 'error' : 'processed');
    expect(errors).to.have.lengthOf(file.refused);
  }
  for (const name of drop.names('error').filter((one) => one.endsWith('.rejects.ldif'))) {
    const id = name.split('.')[1]!;
    expect(drop.text('error', name).match(/^dn: /gm), name).to.have.lengthOf(expected.files.get(id)!.refused);
  }
  for (const place of ['target', 'processing'] as const) expect(drop.names(place), place).to.deep.equal([]);
  const hidden = readdirSync(drop.path('processing')).filter((name) => !name.startsWith('.alive-'));
  expect(hidden, 'parts that were left').to.deep.equal([]);
  expect(await dropRows(fixture.store)).to.deep.equal([]);
  await fixture.expectClean();
}

function isDone(drop: Drop): boolean {
  return drop.names('target').length === 0 && drop.names('processing').length === 0;
}

describe('claimants of a drop folder, killed with -9', () => {
  const drops: Drop[] = [];
  const folders: string[] = [];
  after(() => {
    for (const drop of drops) drop.remove();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  function newDrop(): Drop {
    const drop = new Drop();
    drops.push(drop);
    return drop;
  }

  const FILES = rounds(100, 2000);
  it(`on one LMDB folder, ${FILES} files: each record is applied exactly once, and the receipts add up`, function () {
    this.timeout(FILES * 3000);
    return seeded(async (random) => {
      const lmdb = mkdtempSync(join(tmpdir(), 'rowan-drop-lmdb-'));
      folders.push(lmdb);
      const drop = newDrop();
      await prepare(await openLmdbStore(lmdb));
      const fixture = await openOver(await openLmdbStore(lmdb));
      await makeCounters(fixture);
      const expected = dropFiles(drop, FILES, random);
      const claimants = new Claimants({ folder: drop.folder, lmdb, lease: 1 }, random, 120);
      await claimants.work(3, () => isDone(drop));
      expect(claimants.kills, 'how many were killed').to.be.at.least(3);
      fixture.partition.renewReads();
      await expectOnce(fixture, drop, expected);
      await fixture.close();
    });
  });

  const FEW = rounds(10, 200);
  it(`over HBase, ${FEW} files and two front ends: each record is applied exactly once`, async function () {
    const server = await hbase(this);
    this.timeout(FEW * 30_000);
    await seeded(async (random) => {
      const settings: HBaseSettings = server.settings(freshPrefix());
      const drop = newDrop();
      await prepare(await openHBaseStore(settings));
      const fixture = await openOver(await openHBaseStore(settings));
      await makeCounters(fixture);
      const expected = dropFiles(drop, FEW, random);
      const claimants = new Claimants({ folder: drop.folder, hbase: settings, lease: 1 }, random, 20);
      await claimants.work(2, () => isDone(drop));
      expect(claimants.kills, 'how many were killed').to.be.at.least(1);
      await expectOnce(fixture, drop, expected);
      await fixture.close();
    });
  });
});
