import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { readJob } from '../../src/jobs/index.js';
import { scheduleFault } from '../../src/jobs/job.js';
import { stateStep } from '../../src/jobs/job-rows.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { RawClient } from '../server/raw-client.js';
import { ADA, ADMIN, PASSWORD, rowan, rowanDoes, Sandbox } from './rowan.js';

describe('cli: jobs', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  const list = () => rowanDoes(['jobs', 'list', '--data', sandbox.data]);
  const part = (text: string, name: string): string => new RegExp(`^${name}: .*\n(?:  .*\n)*`, 'm').exec(text)![0];

  it('lists jobs that never ran or are disabled, runs and enables one, and lists what it did', async () => {
    await rowanDoes(['jobs', 'disable', 'trim', '--data', sandbox.data]);
    const listed = await list();
    expect(part(listed, 'trim')).to.contain('next      disabled\n');
    expect(part(listed, 'purge')).to.match(
      /^purge: forgets entries deleted more than 30 days ago\n {2}schedule {2}17 \* \* \* \*\n {2}last {6}never\n {2}next {6}\d{4}-/,
    );
    const done = await rowanDoes(['jobs', 'run', 'check', '--data', sandbox.data]);
    expect(done).to.match(/^\d+ entries checked, no breach found\n$/);
    await rowanDoes(['jobs', 'enable', 'trim', '--data', sandbox.data]);
    const again = await list();
    expect(part(again, 'trim')).to.match(/next {6}\d{4}-/);
    expect(part(again, 'check')).to.match(/last {6}\d{4}-.*Z, [\d.]+ s, done: \d+ entries checked, no breach found/);
    expect(await rowanDoes(['jobs', 'run', 'certificate', '--data', sandbox.data])).to.equal(
      'there is no certificate (tls.cert)\n',
    );
  });

  it('names the jobs where one is unknown', async () => {
    const unknown = await rowan(['jobs', 'run', 'sweep', '--data', sandbox.data]);
    expect(unknown.code).to.equal(2);
    expect(unknown.stderr).to.contain("there is no job 'sweep'; the jobs are purge, trim, recount, check, certificate");
  });

  it('refuses a schedule that is none, with what is wrong with it', async () => {
    const given = ['--jobs-purge-schedule', '61 * * * *'];
    const refused = await rowan(['serve', '--data', sandbox.data, ...given]);
    expect(refused.code).to.equal(2);
    expect(refused.stderr).to.match(/must be a cron pattern of five fields, such as "30 3 \* \* \*", or off: .*61/);
    expect(scheduleFault('foo')).to.contain('it has one field');
    expect(scheduleFault('0 0 31 2 *')).to.contain('that time never comes');
  });

  it('runs job dropfolder where the configuration has a folder, by the rights that it names', async () => {
    const drop = sandbox.path('drop');
    const lines = [`data: ${sandbox.data}`, 'dropfolder:', `  folder: ${drop}`, `  as: ${ADMIN}`];
    writeFileSync(sandbox.path('rowan.yaml'), lines.map((line) => `${line}\n`).join(''));
    mkdirSync(drop, { mode: 0o700 });
    const run = () => rowanDoes(['jobs', 'run', 'dropfolder', '--config', sandbox.path('rowan.yaml')]);
    expect(await run()).to.equal('0 files processed, 0 with refused records, 0 expired, 0 left\n');
    const text = 'dn: ou=dropped,dc=example,dc=com\nobjectClass: organizationalUnit\nou: dropped\n';
    writeFileSync(join(drop, 'incoming/target/unit.ldif'), text);
    expect(await run()).to.equal('1 file processed, 0 with refused records, 0 expired, 0 left\n');
    expect(await rowanDoes(['export', '--data', sandbox.data, '--filter', '(ou=dropped)'])).to.contain('ou=dropped');
    writeFileSync(join(drop, 'incoming/target/again.ldif'), text);
    const failed = await rowan(['jobs', 'run', 'dropfolder', '--config', sandbox.path('rowan.yaml')]);
    expect(failed.code).not.to.equal(0);
    expect(failed.stdout + failed.stderr).to.contain(
      `0 files processed, 1 with refused records, 0 expired, 0 left; see the receipts in ${join(drop, 'incoming/error')}`,
    );
    // The command takes from the configuration what no flag gives.
    const byHand = (...flags: string[]) =>
      rowan(['dropfolder', '--once', '--config', sandbox.path('rowan.yaml'), ...flags]);
    const mapping = sandbox.path('mapping.yaml');
    writeFileSync(sandbox.path('rowan.yaml'), `${lines.join('\n')}\n  mapping: ${mapping}\n`);
    writeFileSync(mapping, 'bace: x\n');
    const wrong = await byHand();
    expect(wrong.code).to.equal(1);
    expect(wrong.stderr).to.contain("mapping.yaml: 'bace' is not known");
    const description = 'attributes: { ou: name, description: text }\nconstants: { objectClass: organizationalUnit }\n';
    const key = 'key: { column: name, attribute: ou }\nbase: dc=example,dc=com\ndn: ou={name},dc=example,dc=com\n';
    writeFileSync(mapping, key + description);
    writeFileSync(join(drop, 'incoming/target/units.csv'), 'name,text\ndropped,by hand\n');
    expect((await byHand()).stdout).to.equal('1 file processed, 0 with refused records, 0 expired, 0 left\n');
    writeFileSync(sandbox.path('rowan.yaml'), `${lines.slice(0, 3).join('\n')}\n  as: cn=nobody,dc=example,dc=com\n`);
    expect((await byHand()).stderr).to.contain(
      "'cn=nobody,dc=example,dc=com', whose rights apply to files, does not exist",
    );
    expect((await byHand('--as', ADMIN)).code).to.equal(0);
    expect((await rowan(['dropfolder', '--once', '--data', sandbox.data])).code).to.equal(2);
  });

  it('a server purges at its time what is older than it is kept, and cn=Jobs,cn=Monitor tells of it', async () => {
    const store = await openLmdbStore(sandbox.data);
    const { term } = await readJob(store, 'purge');
    await store.commit({ steps: [stateStep('purge', term, { since: Date.now() - 120_000 })], decisive: 0 });
    await store.close();
    const settings = ['--history-deleted-days', '0', '--jobs-purge-schedule', '* * * * *'];
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: `dn: ${ADA}\nchangetype: delete\n` });
    expect(await rowanDoes(['deleted', 'list', '--data', sandbox.data])).to.contain(ADA);
    const server = await sandbox.serve(settings);
    const client = await RawClient.open(server.port);
    await client.bind(ADMIN, PASSWORD);
    const told = async (): Promise<string> => {
      const { entries } = await client.search('cn=Jobs,cn=Monitor', { attributes: ['description'] });
      return entries[0]!.attributes
        .get('description')!
        .map(String)
        .find((value) => value.startsWith('purge.last: '))!;
    };
    while (!(await told()).includes('1 deleted entry forgotten')) await sleep(20);
    client.close();
    expect(await rowanDoes(['deleted', 'list', '--data', sandbox.data])).to.equal('');
  });
});
