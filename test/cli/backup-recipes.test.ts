import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ADA, MAIN, rowanDoes, run, Sandbox, SUFFIX } from './rowan.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/operations.md'), 'utf8');
const SALES = `ou=sales,${SUFFIX}`;
const DEPARTMENT = `dn: ${SALES}
objectClass: organizationalUnit
ou: sales

dn: uid=sam,${SALES}
objectClass: inetOrgPerson
uid: sam
cn: Sam
sn: Sam
userPassword: secret

`;

/** The text of a recipe. */
function recipe(title: string): string {
  return new RegExp(`^### ${title}\n([\\s\\S]*?)^##`, 'm').exec(page)![1]!;
}

describe('backup recipes of the page', () => {
  const sandbox = new Sandbox();

  before(async () => {
    await sandbox.initSample();
    mkdirSync(sandbox.path('bin'));
    writeFileSync(sandbox.path('bin/rowan'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
    chmodSync(sandbox.path('bin/rowan'), 0o755);
    await change(DEPARTMENT);
  });
  after(() => sandbox.remove());

  async function change(ldif: string): Promise<void> {
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: ldif });
  }

  const content = (): Promise<string> => rowanDoes(['export', '--data', sandbox.data, '--no-operational']);

  /** Runs the commands of a recipe, those from `first` to `last` alone, where these are given. */
  async function follow(title: string, first?: string, last?: string): Promise<string> {
    const commands = [...recipe(title).matchAll(/^ {4}(\S.*)$/gm)].map((match) => match[1]!);
    const from = first === undefined ? 0 : commands.findIndex((command) => command.startsWith(first));
    const to = last === undefined ? commands.length : commands.findIndex((command) => command.startsWith(last)) + 1;
    const env = { PATH: `${sandbox.path('bin')}:${process.env.PATH}` };
    const script = commands.slice(from, to).join('\n');
    const { code, stdout, stderr } = await run('sh', ['-ec', script], { cwd: sandbox.folder, env });
    expect(code, `${script}\n${stdout}${stderr}`).to.equal(0);
    return stdout;
  }

  it('each night', async () => {
    const [, settings] = /```yaml\n([\s\S]*?)```/.exec(recipe('Each night'))!;
    writeFileSync(sandbox.path('rowan.yaml'), settings!);
    const said = await follow('Each night');
    expect(said).to.match(/backups\/\d{8}T\d{6}Z made and read, \d+ entries; 1 backup there/);
    expect(said).to.match(/^backup: makes a backup in .*backups, and keeps those of 14 days\n.*\n {2}last {6}.*done/m);
    expect(said).to.match(/^ok +backup +the newest backup is /m);
    expect(said).to.match(/^ok +history +change records are kept for 30 days: about \d+ a day, \d+ KiB/m);
  });

  it('before an upgrade', async () => {
    const before = await content();
    await follow('Before an upgrade', 'rowan backup', 'rowan backup');
    await change(`dn: ${ADA}\nchangetype: delete\n`);
    await follow('Before an upgrade', 'mv');
    expect(await content()).to.equal(before);
    expect(existsSync(sandbox.path('data-new/data.mdb'))).to.equal(true);
  });

  it('somebody deleted the wrong department', async () => {
    const before = await content();
    const remove = `dn: uid=sam,${SALES}\nchangetype: delete\n\ndn: ${SALES}\nchangetype: delete\n`;
    await change(remove);
    await follow('Somebody deleted the wrong department', 'rowan deleted list', 'rowan deleted restore');
    expect(await content()).to.equal(before);
    await change(remove);
    await rowanDoes(['deleted', 'purge', '--all', '--data', sandbox.data]);
    expect(await follow('Somebody deleted the wrong department', 'rowan restore')).to.contain('dn: uid=sam');
    expect(await content()).to.equal(before);
  });

  it('the disk is gone', async () => {
    renameSync(sandbox.data, sandbox.path('gone'));
    await follow('The disk is gone');
    rmSync(sandbox.path('gone'), { recursive: true });
    expect(await rowanDoes(['export', '--data', sandbox.path('restored')])).to.contain('dn: uid=sam');
  });
});
