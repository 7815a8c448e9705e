import { createHash } from 'node:crypto';
import fs, { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { copyData, makeBackup, updateBackup } from '../../src/cli/backup/backup.js';
import { verifyBackup } from '../../src/cli/backup/manifest.js';
import { Partition } from '../../src/partition/index.js';
import { Applier } from '../../src/replica/applier.js';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { change, Fixture, openFixture, SUFFIX, testSchema } from '../partition/fixture.js';
import { inSoak } from '../rounds.js';

const CALLS = ['mkdirSync', 'rmSync', 'copyFileSync', 'writeFileSync', 'chmodSync', 'fsyncSync', 'renameSync'] as const;

/** Calls `onStep` before each call that changes files, and before each message of changes is applied. */
async function inSteps(onStep: (name: string) => void, work: () => unknown): Promise<void> {
  const originals = CALLS.map((name) => [name, fs[name] as (...args: unknown[]) => unknown] as const);
  const { apply } = Applier.prototype;
  let isQuiet = false;
  const step = (name: string): void => {
    if (isQuiet) return;
    isQuiet = true;
    onStep(name);
    isQuiet = false;
  };
  const wrap = ([name, call]: (typeof originals)[number]): [string, unknown] => [
    name,
    (...args: unknown[]) => {
      step(name);
      return call(...args);
    },
  ];
  Object.assign(fs, Object.fromEntries(originals.map(wrap)));
  syncBuiltinESMExports();
  Applier.prototype.apply = function (...args) {
    step('apply');
    return apply.apply(this, args);
  };
  try {
    await work();
  } finally {
    Object.assign(fs, Object.fromEntries(originals));
    syncBuiltinESMExports();
    Applier.prototype.apply = apply;
  }
}

/** Names and contents of all files of a folder. */
function stateOf(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).map((entry) => {
    const path = join(entry.parentPath, entry.name);
    return `${path} ${entry.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : ''}`;
  });
  return files.sort().join('\n');
}

/** What a process that is killed leaves are its files as they are then: a copy of them before each step. */
for (const engine of ['lmdb', 'memory'] as const)
  describe(`a backup whose process ends at any step (${engine})`, () => {
    const base = mkdtempSync(join(tmpdir(), 'rowan-backup-steps-'));
    let fixture: Fixture;
    let count = 0;

    before(async () => {
      // cpSync keeps the calls that it finds when it is first used.
      cpSync(base, `${base}.copy`, { recursive: true });
      rmSync(`${base}.copy`, { recursive: true });
      fixture = await openFixture(engine);
      await fixture.unit('people');
      for (let n = 0; n < 20; n++) await fixture.person(`n${n}`, `ou=people,${SUFFIX}`);
    });
    after(async () => {
      await fixture.close();
      rmSync(base, { recursive: true });
    });

    const source = (store: Store) => ({ store, address: engine, settingsFile: undefined });

    /** Copies of a folder of work before steps and after the last one, each state once; in `npm test` ten of them. */
    async function states(work: string, run: () => unknown): Promise<{ steps: Set<string>; folders: string[] }> {
      const foldersByState = new Map<string, string>();
      const steps = new Set<string>();
      const take = (step: string): void => {
        steps.add(step);
        const state = stateOf(work);
        if (foldersByState.has(state)) return;
        const folder = join(base, `state${count++}`);
        cpSync(work, folder, { recursive: true });
        foldersByState.set(state, folder);
      };
      await inSteps(take, run);
      take('end');
      const folders = [...foldersByState.values()];
      const stride = inSoak ? 1 : Math.ceil(folders.length / 10);
      return { steps, folders: folders.filter((_, i) => (folders.length - 1 - i) % stride === 0) };
    }

    function fresh(): string {
      return mkdtempSync(join(base, 'work-'));
    }

    async function expectDescription(folder: string, values: readonly string[]): Promise<void> {
      const store = await openLmdbStore(folder, { create: false });
      const restored = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      await restored.expectClean();
      expect(values).to.include(String(await restored.values(`ou=people,${SUFFIX}`, 'description')));
      await restored.close();
    }

    it('is there as a whole or not at all, and can be made again', async () => {
      await fixture.modify(`ou=people,${SUFFIX}`, change('replace', 'description', 'first'));
      const work = fresh();
      const { steps, folders } = await states(work, () =>
        makeBackup(source(fixture.store), join(work, 'backup'), false),
      );
      expect([...steps]).to.include.members(['mkdirSync', 'renameSync', 'fsyncSync', 'end']);
      for (const folder of folders) {
        const backup = join(folder, 'backup');
        if (!existsSync(backup)) await makeBackup(source(fixture.store), backup, false);
        expect(await verifyBackup(backup)).to.deep.equal([]);
        expect(readdirSync(folder)).to.deep.equal(['backup']);
        await expectDescription(backup, ['first']);
      }
    });

    if (engine === 'lmdb')
      it('has the changes since or says that they were being added, and takes them up again', async () => {
        const work = fresh();
        const backup = join(work, 'backup');
        await fixture.modify(`ou=people,${SUFFIX}`, change('replace', 'description', 'second'));
        await makeBackup(source(fixture.store), backup, true);
        for (let n = 0; n < 5; n++) await fixture.person(`m${n}`, `ou=people,${SUFFIX}`);
        await fixture.modify(`ou=people,${SUFFIX}`, change('replace', 'description', 'third'));
        const { steps, folders } = await states(work, () => updateBackup(source(fixture.store), backup));
        expect([...steps]).to.include.members(['apply', 'renameSync', 'end']);
        for (const folder of folders) {
          const copy = join(folder, 'backup');
          const findings = await verifyBackup(copy);
          if (findings.length > 0) expect(findings.join()).to.contain('changes were being added');
          await updateBackup(source(fixture.store), copy);
          expect(await verifyBackup(copy)).to.deep.equal([]);
          await expectDescription(copy, ['third']);
        }
      });

    it('is restored to a folder that is there as a whole or not at all', async () => {
      await fixture.modify(`ou=people,${SUFFIX}`, change('replace', 'description', 'fourth'));
      const backup = join(fresh(), 'backup');
      await makeBackup(source(fixture.store), backup, false);
      const work = fresh();
      const { steps, folders } = await states(work, () => copyData(backup, join(work, 'data')));
      expect([...steps]).to.include.members(['copyFileSync', 'renameSync', 'end']);
      for (const folder of folders) {
        const data = join(folder, 'data');
        if (!existsSync(data)) await copyData(backup, data);
        await expectDescription(data, ['fourth']);
        expect(readdirSync(folder)).to.deep.equal(['data']);
      }
    });
  });
