import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ADA, exited, MAIN, rowanDoes, run, Sandbox, startRowan, until } from '../cli/rowan.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/dropfolder.md'), 'utf8');

interface Recipe {
  readonly title: string;
  /** What the text names just before a block, and the block. */
  readonly files: ReadonlyMap<string, string>;
  readonly commands: readonly string[];
}

function recipes(): Recipe[] {
  const section = /^## Recipes\n([\s\S]*?)^## /m.exec(page)![1]!;
  return section
    .split(/^### /m)
    .slice(1)
    .map((text) => ({
      title: text.split('\n', 1)[0]!,
      files: new Map(
        [...text.matchAll(/`(\w+\.\w+)`[^`]*\n```\w+\n([\s\S]*?)^```/gm)].map((match) => [match[1]!, match[2]!]),
      ),
      commands: [...text.matchAll(/^ {4}(\S.*)$/gm)].map((match) => match[1]!),
    }));
}

describe('recipes of docs/dropfolder.md', () => {
  const sandbox = new Sandbox();

  before(async () => {
    await sandbox.initSample();
    mkdirSync(sandbox.path('bin'));
    writeFileSync(sandbox.path('bin/rowan'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
    chmodSync(sandbox.path('bin/rowan'), 0o755);
  });
  after(() => sandbox.remove());

  async function does(command: string): Promise<string> {
    const env = { PATH: `${sandbox.path('bin')}:${process.env.PATH}` };
    const ended = await run('sh', ['-c', command], { cwd: sandbox.folder, env });
    expect(ended.code, `${command}\n${ended.stdout}${ended.stderr}`).to.equal(0);
    return ended.stdout;
  }

  /** The command without `--once`: it takes a file that is dropped, and ends by SIGTERM. */
  async function waits(command: string): Promise<string> {
    const child = startRowan(command.split(' ').slice(1), { cwd: sandbox.folder });
    writeFileSync(sandbox.path('later.ldif'), `dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: Later\n-\n`);
    await does('sh drop.sh later.ldif');
    const moved = sandbox.path('drop/incoming/processed/later.ldif');
    await until(child, () => existsSync(moved));
    child.kill('SIGTERM');
    expect(await exited(child)).to.equal(0);
    return readFileSync(`${moved}.receipt.json`, 'utf8');
  }

  /** Does what the recipe says, line by line; what the lines said. */
  async function follow({ files, commands }: Recipe): Promise<string[]> {
    for (const [name, text] of files) writeFileSync(sandbox.path(name), text);
    const said: string[] = [];
    for (const command of commands)
      said.push(await (/^rowan (?!.*--(?:once|dry-run))/.test(command) ? waits(command) : does(command)));
    return said;
  }

  async function exported(): Promise<string> {
    return rowanDoes(['export', '--data', sandbox.data]);
  }

  /** What each leaves, and says. */
  const EXPECTED: Readonly<Record<string, (said: string[]) => Promise<void>>> = {
    'Drop LDIF from a script': async ([made, , done, receipt, later]) => {
      expect(made).to.match(/^0 files processed/);
      expect(done).to.equal('1 file processed, 0 with refused records, 0 expired, 0 left\n');
      expect(JSON.parse(receipt!)).to.include({ id: 'people.ldif', result: 'processed', applied: 3, refused: 0 });
      expect(JSON.parse(later!)).to.include({ applied: 1 });
      expect(await exported()).to.match(/^dn: uid=noor,ou=staff/m);
    },
    'Mend what was refused': async ([, refused, , , mended]) => {
      const receipt = JSON.parse(refused!.slice(refused!.indexOf('{')));
      expect(receipt).to.include({ result: 'error', applied: 1, refused: 1 });
      expect(receipt.errors[0]).to.have.property('line', 7);
      expect(mended).to.match(/^1 file processed/);
      expect(await exported()).to.contain('mail: ole@example.com');
    },
    'Ask for an answer': async (said) => {
      expect(JSON.parse(said.at(-1)!)).to.include({ id: '17', correlation: 'order-17', applied: 1 });
    },
    'Take people over from HR': async ([, first, , , second, done]) => {
      expect(first).to.match(/ {2}add uid=sanne,ou=staff,dc=example,dc=com\n[\s\S]* {2}add uid=tariq/);
      expect(second).to.contain('    sn: Visser -> Visser-Smit\n');
      expect(second).to.contain('    employeeType: (none) -> left\n');
      expect(done).to.match(/^1 file processed/);
      expect(await exported()).to.contain('employeeType: left');
    },
    'Give producers few rights': async ([, refused]) => {
      expect(refused).to.match(/1 with refused records[\s\S]*order.ldif.rejects.ldif/);
    },
  };

  for (const recipe of recipes())
    it(`"${recipe.title}" works line by line`, async () => {
      const said = await follow(recipe);
      await EXPECTED[recipe.title]!(said);
    });

  it('are all followed', () => {
    expect(recipes().map(({ title }) => title)).to.deep.equal(Object.keys(EXPECTED));
  });
});
