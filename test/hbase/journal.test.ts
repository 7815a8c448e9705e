import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { MAX_TIME } from '../../src/store/hbase/journal/journal-tables.js';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { tableHandle } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { cellCounter, EMPTY } from '../../src/store/row.js';
import { inSoak } from '../rounds.js';
import { COUNT, PARENT, plan, ROWS, SPECS, seed, seedShared, state } from './journal-plan.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';

const LEASE_MS = 4000;
const CHILD = fileURLToPath(new URL('./journal-child.js', import.meta.url));
/** Children alive at once. */
const TOGETHER = 4;

interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

interface Ended {
  readonly points: string[];
  readonly done: boolean;
}

describe('journal', () => {
  let server: HBaseServer;
  let prefix: string;
  let settings: HBaseSettings;
  let store: HBaseStore;
  let untouched: string;
  let changed: string;
  /** Run 0, which nobody kills: its state before, and how it went. */
  let seeded: string;
  let whole: Ended;
  const children = new Set<ChildProcess>();

  before(async function () {
    server = await hbase(this);
    prefix = freshPrefix();
    settings = server.settings(prefix);
    store = await openHBaseStore(settings, { leaseMs: LEASE_MS });
    for (const spec of SPECS) await store.createTable(spec);
    await seedShared(store);
    [untouched, changed] = await expected();
    await store.commit(seed('0'));
    seeded = await state(store, '0');
    whole = await start('run:0', -1).ended;
  });

  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await store?.close();
  });

  function start(what: string, at: number, signal: NodeJS.Signals = 'SIGKILL', under = prefix): Started {
    const child = spawn(process.execPath, [CHILD, server.url(under), String(LEASE_MS), what, String(at), signal], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    children.add(child);
    let out = '';
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
    const ended = new Promise<Ended>((resolve) => {
      child.once('close', () => {
        children.delete(child);
        const lines = out.split('\n');
        resolve({ points: lines.filter((line) => line.startsWith('point ')), done: lines.includes('done') });
      });
    });
    return { child, ended };
  }

  async function count(): Promise<bigint> {
    return cellCounter((await store.get(ROWS.name, PARENT)) ?? undefined, COUNT.family, COUNT.qualifier);
  }

  /**
   * Seeds the runs, kills a child in each at its point, and gives how many of the plans have happened once all is
   * swept.
   */
  async function killRuns(runs: readonly { name: string; at: number }[]): Promise<number> {
    for (const { name } of runs) await store.commit(seed(name));
    for (let i = 0; i < runs.length; i += TOGETHER) {
      await Promise.all(
        runs.slice(i, i + TOGETHER).map(async ({ name, at }) => {
          const { points, done } = await start(`run:${name}`, at).ended;
          expect(points.length, `points of ${name}`).to.equal(at + 1);
          expect(done).to.equal(false);
        }),
      );
    }
    await swept(store, settings, 1);
    let happened = 0;
    for (const { name } of runs) {
      const found = await state(store, name);
      expect([untouched.replaceAll('RUN', name), changed.replaceAll('RUN', name)], name).to.include(found);
      if (found === changed.replaceAll('RUN', name)) happened++;
    }
    return happened;
  }

  it('applies a plan with every kind of step as an embedded engine does', async () => {
    expect(seeded).to.equal(untouched.replaceAll('RUN', '0'));
    expect(whole.done).to.equal(true);
    expect(whole.points).to.include('point decide after');
    expect(await state(store, '0')).to.equal(changed.replaceAll('RUN', '0'));
    expect(await count()).to.equal(1n);
  });

  it('leaves all of a plan or nothing, wherever its front end is killed', async () => {
    const counted = await count();
    const decided = whole.points.indexOf('point decide after');
    const runs = whole.points
      .map((_, at) => ({ name: `1${String(at).padStart(2, '0')}`, at }))
      .filter(({ at }) => inSoak || at % 8 === decided % 8);
    const happened = await killRuns(runs);
    expect(await count()).to.equal(counted + BigInt(happened));
    // What was decided happens, what was not does not.
    expect(happened).to.equal(runs.filter(({ at }) => at >= decided).length);
  });

  it('does not write index rows once more where rows were changed since: a later plan may have taken them away', async () => {
    const under = freshPrefix();
    const alone = server.settings(under);
    const open = () => openHBaseStore(alone, { leaseMs: LEASE_MS });
    const first = await open();
    for (const spec of SPECS) await first.createTable(spec);
    await seedShared(first);
    await first.commit(seed('0'));
    await first.close();
    await start('run:0', whole.points.indexOf('point decide after'), 'SIGKILL', under).ended;
    const client = new HBaseClient(alone);
    const rows = tableHandle(alone, ROWS);
    const lock = { family: rows.families.length - 1, qualifier: EMPTY, timestamp: MAX_TIME };
    await client.putMany(rows, [{ key: Buffer.from('0/changed'), delete: [lock] }]);
    await client.close();
    const second = await open();
    try {
      await swept(second, alone, 1);
      const [, , , , old, come] = (await state(second, '0')).split('\n');
      expect([old, come]).to.deep.equal(['old -', 'new -']);
    } finally {
      await second.close();
    }
  });

  it('is swept right by several at once, some of which are killed at that', async () => {
    const counted = await count();
    const second = await openHBaseStore(settings, { leaseMs: LEASE_MS });
    const names: string[] = [];
    try {
      // Which sweeper comes to a dead front end first is a matter of chance: mostly one of those that are killed.
      for (let killed = 0, round = 0; killed === 0 && round < 5; round++) {
        const next = Array.from({ length: inSoak ? 4 : 3 }, (_, n) => `2${String(names.length + n).padStart(2, '0')}`);
        names.push(...next);
        killed = await killSweepers(next);
      }
      await swept(store, settings, 2);
      for (const name of names) expect(await state(store, name)).to.equal(changed.replaceAll('RUN', name));
      expect(await count()).to.equal(counted + BigInt(names.length));
    } finally {
      await second.close();
    }
  });

  /** Lets several sweep front ends that died in runs of these names; how many of them were killed at their points. */
  async function killSweepers(names: readonly string[]): Promise<number> {
    const points = inSoak ? [0, 1, 3, 6, 9] : [0, 1, 4, 9];
    const sweepers = points.map((at) => start('sweep', at));
    const decided = whole.points.indexOf('point decide after');
    for (const name of names) await store.commit(seed(name));
    await Promise.all(names.map((name) => start(`run:${name}`, decided).ended));
    for (const name of names) while ((await state(store, name)) !== changed.replaceAll('RUN', name)) await sleep(50);
    for (const { child } of sweepers) child.kill('SIGKILL');
    const ended = await Promise.all(sweepers.map((sweeper) => sweeper.ended));
    return ended.filter((sweeper, n) => sweeper.points.length === points[n]! + 1).length;
  }

  it('fences a front end that was only slow: it goes on under another name, and nothing happens twice', async () => {
    const counted = await count();
    await store.commit(seed('300'));
    await store.commit(seed('301'));
    const slow = start('run:300', whole.points.indexOf('point decide before'), 'SIGSTOP');
    await once(slow.child.stdout!, 'data', (text: string) => text.includes('decide before'));
    await swept(store, settings, 1);
    // Its locks are dead: another may have the rows.
    await store.commit({ steps: plan('301').steps, decisive: 0 });
    slow.child.kill('SIGCONT');
    expect((await slow.ended).done).to.equal(true);
    expect(await state(store, '300')).to.equal(changed.replaceAll('RUN', '300'));
    expect(await count()).to.equal(counted + 2n);
  });
});

/** Resolves when what was said so far satisfies. */
async function once(stream: NodeJS.ReadableStream, event: string, enough: (text: string) => boolean): Promise<void> {
  let text = '';
  await new Promise<void>((resolve) => {
    stream.on(event, (more: string) => {
      text += more;
      if (enough(text)) resolve();
    });
  });
}

/** The states before and after the plan as the memory engine has them, of a run named RUN. */
async function expected(): Promise<[string, string]> {
  const memory: Store = openMemoryStore();
  for (const spec of SPECS) await memory.createTable(spec);
  await seedShared(memory);
  await memory.commit(seed('RUN'));
  const first = await state(memory, 'RUN');
  await memory.commit(plan('RUN'));
  return [first, await state(memory, 'RUN')];
}
