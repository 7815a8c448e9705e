import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { type Fixture, type Random, SUFFIX } from '../partition/fixture.js';
import { CLAIMANT, type ClaimantArgs } from './claimant-child.js';
import { type Drop, dropRows } from './drop.js';

const COUNTERS = 5;
/** So many claimants are killed at least. */
export const LEAST_KILLS = 3;
/** Commits after which a claimant that is to die early is killed, at most. */
const EARLY_COMMITS = 15;
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
export function dropFiles(drop: Drop, count: number, random: Random): Expected {
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

export async function makeCounters(fixture: Fixture): Promise<void> {
  const objectClass = ['account', 'posixAccount'];
  const values = { objectClass, uidNumber: '0', gidNumber: '0', homeDirectory: '/' };
  for (let k = 0; k < COUNTERS; k++)
    await fixture.add(counterDn(k), { ...values, uid: `counter-${k}`, cn: `counter-${k}` });
}

/** Claimants that kill themselves, each of which another takes the place of, until no file is left. */
export class Claimants {
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
        // Until enough were killed, each dies early and none takes its place: the files cannot be done before.
        const wanted = this.kills < LEAST_KILLS ? processes - this.kills : processes;
        while (this.#running.size < wanted) this.#start();
        if (this.errors.includes('Error')) throw new Error(this.errors);
        await sleep(20);
      }
      await Promise.all([...this.#running].map((child) => ended(child, 'SIGTERM')));
    } finally {
      for (const child of this.#running) child.kill('SIGKILL');
    }
  }

  #start(): void {
    const commits = 1 + this.#random.int(this.kills < LEAST_KILLS ? EARLY_COMMITS : 2 * this.#commits);
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

export async function expectOnce(fixture: Fixture, drop: Drop, expected: Expected): Promise<void> {
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

export function isDone(drop: Drop): boolean {
  return drop.names('target').length === 0 && drop.names('processing').length === 0;
}
