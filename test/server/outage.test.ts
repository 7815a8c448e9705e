import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Client } from 'ldapts';
import { pino } from 'pino';
import { Maintenance } from '../../src/cli/maintenance.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { StoreError } from '../../src/store/store-error.js';
import { delayedStore } from '../store/delayed.js';
import { faulty } from '../store/faulty.js';
import { ADMIN, emptyPartition, fill, personDn, start } from './directory.js';

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly err?: unknown;
}

const [INFO, WARN] = [30, 40];

for (const [kind, open] of [
  ['answers at once', openMemoryStore],
  ['is beyond a network', delayedStore],
] as const)
  describe(`a store that ${kind} and then does not`, () => {
    const message = 'the servers of table "master" do not answer (connection refused)';
    let gone = false;
    const silent = () =>
      gone ? ({ do: 'fail', error: new StoreError('unavailable', `${message}\nat x`) } as const) : undefined;
    const prepare = async () => {
      const partition = await emptyPartition(faulty(open(), silent));
      await fill(partition, 1);
      return partition;
    };
    const told = (lines: readonly string[]): [number, string][] =>
      lines
        .map((line) => JSON.parse(line) as Line)
        .filter(({ level, msg, err }) => err !== undefined || level >= WARN || msg.includes('store'))
        .map(({ level, msg, err }) => [level, err ? `with a stack: ${msg}` : msg.replace(/\d+\.\d s/, 'N s')]);
    const outage: [number, string][] = [[WARN, `the store does not answer: ${message}`]];
    const wholeOutage = [...outage, [INFO, 'the store answers again, N s after that was told']];

    afterEach(() => {
      gone = false;
    });

    it('is told once, and once that it answers again, however many requests fail', async () => {
      const partition = await prepare();
      const running = await start({}, 0, partition);
      const client = new Client({ url: running.url });
      try {
        await client.bind(ADMIN.dn, ADMIN.password);
        const read = async (): Promise<number> =>
          client.search(personDn('p0'), { scope: 'base' }).then(
            () => 0,
            (error: { code: number }) => error.code,
          );
        expect(await read()).to.equal(0);
        expect(told(running.lines)).to.deep.equal([]);
        gone = true;
        expect(await Promise.all([read(), read(), read()])).to.deep.equal([52, 52, 52]);
        expect(await read()).to.equal(52);
        expect(told(running.lines)).to.deep.equal(outage);
        gone = false;
        while ((await read()) !== 0) await sleep(20);
        expect(await Promise.all([read(), read()])).to.deep.equal([0, 0]);
        expect(told(running.lines)).to.deep.equal(wholeOutage);
        // Soon after, only a part of it may have come back.
        gone = true;
        expect(await read()).to.equal(52);
        gone = false;
        while ((await read()) !== 0) await sleep(20);
        expect(told(running.lines)).to.deep.equal(wholeOutage);
      } finally {
        await client.unbind();
        await running.stop();
        await partition.close();
      }
    });

    it('is waited for by no request until it answers again; what the server knows itself is told all the while', async () => {
      const partition = await prepare();
      const running = await start({}, 0, partition);
      const [admin, stranger] = [new Client({ url: running.url }), new Client({ url: running.url })];
      const outcome = (client: Client, base: string, scope: 'base' | 'sub' = 'base'): Promise<string | number> =>
        client.search(base, { scope }).then(
          ({ searchEntries }) => searchEntries.length,
          ({ message }: Error) => message,
        );
      try {
        await admin.bind(ADMIN.dn, ADMIN.password);
        gone = true;
        expect(await outcome(admin, personDn('p0'))).to.match(/^the store does not answer; try again later/);
        const since = /^the store has not answered since 20[-\d]+T[\d:.]+Z; try again later/;
        for (const client of [admin, stranger]) expect(await outcome(client, personDn('p0'))).to.match(since);
        await stranger.bind('', '');
        for (const client of [admin, stranger])
          expect(await Promise.all([outcome(client, ''), outcome(client, 'cn=Subschema')])).to.deep.equal([1, 1]);
        expect(await outcome(stranger, 'cn=Monitor')).to.match(since);
        const { searchEntries } = await admin.search('cn=Monitor', { scope: 'sub' });
        const jobs = searchEntries.find(({ dn }) => dn === 'cn=Jobs,cn=Monitor');
        expect(jobs?.description).to.equal('not known: the store does not answer');
        gone = false;
        while ((await outcome(admin, personDn('p0'))) !== 1) await sleep(20);
      } finally {
        await Promise.all([admin.unbind(), stranger.unbind()]);
        await running.stop();
        await partition.close();
      }
    });

    it('is told by maintenance where no client asks, in one line', async () => {
      const partition = await prepare();
      const lines: string[] = [];
      let count = 0;
      let failed: (() => void) | undefined;
      const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
      const refresh = partition.refresh.bind(partition);
      partition.refresh = () =>
        refresh().finally(() => {
          if (++count === 3) failed?.();
        });
      const thrice = () =>
        new Promise<void>((resolve) => {
          count = 0;
          failed = resolve;
        });
      gone = true;
      const maintenance = new Maintenance(partition, makeConfig(), log, 1);
      maintenance.start();
      await thrice();
      expect(told(lines)).to.deep.equal(outage);
      gone = false;
      while (told(lines).length < wholeOutage.length) await thrice();
      await maintenance.stop();
      expect(told(lines)).to.deep.equal(wholeOutage);
      await partition.close();
    });
  });
