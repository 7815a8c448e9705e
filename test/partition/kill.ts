import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { ACTOR, Fixture, type Random, SUFFIX, testSchema } from './fixture.js';
import { apply, COUNTER, type Entries, type Operation, SHARED, type Told, WRITERS } from './kill-model.js';
import { readEntries } from './kill-read.js';

const CHILD = fileURLToPath(new URL('./kill-child.js', import.meta.url));

/** What was said before the kill. */
export interface Heard {
  readonly acknowledged: { readonly writer: number; readonly operation: Operation }[];
  /** Begun and not acknowledged, by writer. */
  readonly open: Map<number, Operation>;
}

async function open(folder: string): Promise<Fixture> {
  return openOver(await openLmdbStore(folder));
}

export async function openOver(store: Store): Promise<Fixture> {
  return new Fixture(store, await Partition.open(store, testSchema()), undefined);
}

/** Makes the directory that the writers work in, and closes the store. */
export async function prepare(store: Store): Promise<void> {
  await initDirectory(
    store,
    { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') },
    testSchema(),
  );
  const fixture = await openOver(store);
  await fixture.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
  await fixture.add(SHARED, { objectClass: 'organizationalUnit', ou: 'shared' });
  for (let k = 0; k < WRITERS; k++) await fixture.unit(`w${k}`);
  await fixture.add(COUNTER, {
    objectClass: ['account', 'posixAccount'],
    uid: 'c',
    cn: 'counter',
    uidNumber: '0',
    gidNumber: '0',
    homeDirectory: '/',
  });
  await fixture.close();
}

/** Runs the writers and kills them `after` ms behind the first thing they say; `args` are those of kill-child.js. */
export function killed(args: readonly string[], after: number): Promise<Heard> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [CHILD, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let errors = '';
    let timer: NodeJS.Timeout | undefined;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
      timer ??= setTimeout(() => child.kill('SIGKILL'), after);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (signal === 'SIGKILL') resolve(hear(out));
      else reject(new Error(`the writers ended by themselves (${code}): ${errors}`));
    });
  });
}

function hear(out: string): Heard {
  const heard: Heard = { acknowledged: [], open: new Map() };
  // A last line without an end was cut by the kill.
  for (const line of out.split('\n').slice(0, -1)) {
    const { writer, begins } = JSON.parse(line) as Told;
    if (begins) heard.open.set(writer, begins);
    else {
      heard.acknowledged.push({ writer, operation: heard.open.get(writer)! });
      heard.open.delete(writer);
    }
  }
  return heard;
}

/** Holds what the directory must hold against what it does. */
export class Ledger {
  readonly #entries: Entries[] = Array.from({ length: WRITERS }, () => new Map());
  #counter = 0;
  acknowledged = 0;

  async settle(fixture: Fixture, heard: Heard): Promise<void> {
    this.acknowledged += heard.acknowledged.length;
    for (const { writer, operation } of heard.acknowledged) {
      apply(this.#entries[writer]!, operation);
      if (operation.op === 'count') this.#counter++;
    }
    for (let writer = 0; writer < WRITERS; writer++) {
      const found = await readEntries(fixture, writer);
      this.#entries[writer] = this.#settleOne(found, this.#entries[writer]!, heard.open.get(writer));
    }
    const counter = Number((await fixture.values(COUNTER, 'uidNumber'))[0]);
    const more = [...heard.open.values()].filter((o) => o.op === 'count').length;
    expect(counter, 'increments').to.be.within(this.#counter, this.#counter + more);
    this.#counter = counter;
  }

  /** What was acknowledged, alone or with the operation that was running. */
  #settleOne(found: Entries, entries: Entries, running: Operation | undefined): Entries {
    const with_ = new Map(entries);
    if (running) apply(with_, running);
    const same = (wanted: Entries) => JSON.stringify([...wanted].sort()) === JSON.stringify([...found].sort());
    if (same(entries)) return entries;
    if (same(with_)) return with_;
    expect([...found].sort(), `running: ${JSON.stringify(running)?.slice(0, 200)}`).to.deep.equal([...entries].sort());
    return entries;
  }
}

/**
 * Eight writers on one LMDB folder, killed with -9 at random, again and again: after each kill everything that was
 * acknowledged is there, what was running is wholly there or not at all, and `check` finds no breach.
 */
export async function killRounds(
  rounds: number,
  random: Random,
  tell: (round: number, acknowledged: number) => void,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-kill-'));
  try {
    await prepare(await openLmdbStore(folder));
    const ledger = new Ledger();
    for (let round = 1; round <= rounds; round++) {
      const heard = await killed([folder, String(random.int(2 ** 31))], random.int(250));
      const fixture = await open(folder);
      await fixture.expectClean();
      await ledger.settle(fixture, heard);
      await fixture.close();
      tell(round, ledger.acknowledged);
    }
    expect(ledger.acknowledged, 'the writers were let work').to.be.greaterThan(rounds);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
