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
import {
  apply,
  COUNTER,
  containerOf,
  type Entries,
  type Operation,
  SHARED,
  stateOf,
  type Told,
  WRITERS,
} from './kill-model.js';
import { readEntries } from './kill-read.js';

const CHILD = fileURLToPath(new URL('./kill-child.js', import.meta.url));

/** A line that tells that an operation is done. */
const DONE = /^\{"writer":\d+\}$/m;

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

/** A process of writers that has everything loaded and waits to be told where to write: see kill-child.ts. */
export class Front {
  readonly #child = spawn(process.execPath, [CHILD], { stdio: ['pipe', 'pipe', 'pipe'] });

  /**
   * Lets it write and kills it `after` ms behind the first thing it says, or behind the first that is `done`; `args`
   * are those of kill-child.js.
   */
  killed(args: readonly string[], after: number, done = false): Promise<Heard> {
    const child = this.#child;
    child.stdin.write(`${JSON.stringify(args)}\n`);
    return new Promise((resolve, reject) => {
      let out = '';
      let errors = '';
      let timer: NodeJS.Timeout | undefined;
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        out += text;
        if (!done || DONE.test(out)) timer ??= setTimeout(() => child.kill('SIGKILL'), after);
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

  /** For one that is not wanted. */
  end(): void {
    this.#child.kill('SIGKILL');
  }
}

function hear(out: string): Heard {
  // A last line without an end was cut by the kill.
  const lines = out.split('\n').slice(0, -1);
  return heardOf(lines.map((line) => JSON.parse(line) as Told));
}

/** What writers have told, in order. */
export function heardOf(all: readonly Told[]): Heard {
  const heard: Heard = { acknowledged: [], open: new Map() };
  for (const { writer, begins } of all) {
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
  /** All that each entry was before or during the last round, by entryUUID: `stateOf` texts. */
  readonly states = new Map<string, Set<string>>();
  #counter = 0;
  acknowledged = 0;

  async settle(fixture: Fixture, heard: Heard): Promise<void> {
    this.acknowledged += heard.acknowledged.length;
    this.states.clear();
    for (const [writer, entries] of this.#entries.entries()) this.#note(writer, entries);
    for (const { writer, operation } of heard.acknowledged) {
      apply(this.#entries[writer]!, operation);
      this.#note(writer, this.#entries[writer]!);
      if (operation.op === 'count') this.#counter++;
    }
    const all = await Promise.all(this.#entries.map((_, writer) => readEntries(fixture, writer)));
    for (const [writer, found] of all.entries())
      this.#entries[writer] = this.#settleOne(writer, found, heard.open.get(writer));
    const counter = Number((await fixture.values(COUNTER, 'uidNumber'))[0]);
    const more = [...heard.open.values()].filter((o) => o.op === 'count').length;
    expect(counter, 'increments').to.be.within(this.#counter, this.#counter + more);
    this.#counter = counter;
  }

  #note(writer: number, entries: Entries): void {
    for (const [uuid, { name, text, shared }] of entries) {
      const states = this.states.get(uuid) ?? new Set();
      this.states.set(uuid, states.add(stateOf(`cn=${name},${containerOf(writer, shared)}`, text)));
    }
  }

  /** What was acknowledged, alone or with the operation that was running. */
  #settleOne(writer: number, found: Entries, running: Operation | undefined): Entries {
    const entries = this.#entries[writer]!;
    const with_ = new Map(entries);
    if (running) apply(with_, running);
    this.#note(writer, with_);
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
  let front = new Front();
  try {
    await prepare(await openLmdbStore(folder));
    const ledger = new Ledger();
    for (let round = 1; round <= rounds; round++) {
      // How much is done in some milliseconds is the machine's: each second kill waits for the first that is.
      const done = round % 2 === 0;
      const heard = await front.killed([folder, String(random.int(2 ** 31))], random.int(250), done);
      front = new Front();
      const fixture = await open(folder);
      await fixture.expectClean();
      await ledger.settle(fixture, heard);
      await fixture.close();
      tell(round, ledger.acknowledged);
    }
    expect(ledger.acknowledged, 'the writers were let work').to.be.at.least(Math.floor(rounds / 2));
  } finally {
    front.end();
    rmSync(folder, { recursive: true, force: true });
  }
}
