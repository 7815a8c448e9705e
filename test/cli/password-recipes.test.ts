import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { hotpCode, stepAt } from '../../src/password/totp.js';
import { change } from '../partition/fixture.js';
import { needs } from '../require.js';
import { RawClient, simpleBind } from '../server/raw-client.js';
import { POLICY_CONTROL, policyTold } from '../server/suite/password-policy.js';
import { ADA, ADMIN, MAIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, run, Sandbox } from './rowan.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/passwords.md'), 'utf8');
const URL_OF_PAGE = 'ldap://localhost:1389';

interface Recipe {
  readonly title: string;
  /** What the text names just before a block, and the block. */
  readonly files: ReadonlyMap<string, string>;
  readonly commands: readonly string[];
}

function recipes(): Recipe[] {
  const section = /^## Six recipes\n([\s\S]*?)^## /m.exec(page)![1]!;
  return section
    .split(/^### /m)
    .slice(1)
    .map((text) => ({
      title: text.split('\n', 1)[0]!,
      files: new Map(
        [...text.matchAll(/`([\w.]+\.(?:ldif|yaml))`[^`]*\n```\w+\n([\s\S]*?)^```/gm)].map((m) => [m[1]!, m[2]!]),
      ),
      commands: [...text.matchAll(/^ {4}(\S.*)$/gm)].map((match) => match[1]!),
    }));
}

const HANA = `uid=hana,${PEOPLE}`;
const GRACE = `uid=grace,${PEOPLE}`;
const LENA = `uid=lena,${PEOPLE}`;
const MILAN = `uid=milan,${PEOPLE}`;
/** Of the hashes on the page. */
const OF_SLAPD = 'sesame';

describe('password recipes', () => {
  const sandbox = new Sandbox();
  let server: RunningServer | undefined;

  before(async function () {
    needs(this, 'ldap-utils', 'openssl', 'script');
    await sandbox.initSample();
    const password = (dn: string) =>
      `dn: ${dn}\nchangetype: modify\nadd: userPassword\nuserPassword: ${PASSWORD}\n-\n\n`;
    const passwords = [ADA, GRACE, HANA].map(password).join('');
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: passwords });
    mkdirSync(sandbox.path('bin'));
    writeFileSync(sandbox.path('bin/rowan'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
    chmodSync(sandbox.path('bin/rowan'), 0o755);
  });
  after(() => sandbox.remove());

  /** The recipe's command of that beginning, as it stands; what it says. Lines are typed at a terminal. */
  async function does({ commands }: Recipe, beginning: string, ...typed: string[]): Promise<string> {
    const found = commands.filter((one) => one.startsWith(beginning));
    expect(found, beginning).to.have.lengthOf(1);
    const command = found[0]!.replace(URL_OF_PAGE, server?.url ?? URL_OF_PAGE);
    const env = { PATH: `${sandbox.path('bin')}:${process.env.PATH}` };
    const [program, args] = typed.length > 0 ? ['script', ['-qec', command, '/dev/null']] : ['sh', ['-c', command]];
    const ended = await run(program as string, args as string[], {
      cwd: sandbox.folder,
      env,
      input: typed.map((line) => `${line}\n`).join(''),
    });
    expect(ended.code, `${command}\n${ended.stdout}${ended.stderr}`).to.equal(0);
    return ended.stdout;
  }

  /** Starts the server as the recipe's line says, but for the port. */
  async function serves({ commands }: Recipe): Promise<void> {
    const [line, ...others] = commands.filter((one) => one.startsWith('rowan serve '));
    expect(others).to.deep.equal([]);
    const args = [...line!.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2]!).slice(2);
    expect(args.slice(0, 4)).to.deep.equal(['--data', 'data', '--listen', URL_OF_PAGE]);
    await server?.stop();
    server = await sandbox.serve(args.slice(4), { cwd: sandbox.folder });
  }

  /** A bind, and what the control tells. */
  async function bind(dn: string, password: string): Promise<string> {
    const client = await RawClient.open(server!.port);
    const answer = await client.request(simpleBind(dn, password), [POLICY_CONTROL]);
    client.close();
    return `${answer.code} ${policyTold(answer)!.toString('hex')}`;
  }

  async function searches(dn: string, password: string): Promise<number> {
    const client = await RawClient.open(server!.port);
    expect(await client.bind(dn, password)).to.equal(0);
    const { code } = await client.search(dn);
    client.close();
    return code;
  }

  /** By the administrator. */
  async function replaces(dn: string, type: string, ...values: string[]): Promise<void> {
    const client = await RawClient.open(server!.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    const changes = [change('replace', type, ...values)];
    expect((await client.request({ op: 'modify', dn, changes })).code).to.equal(0);
    client.close();
  }

  const DONE = '0 3000';
  const REFUSED = '49 3000';

  /** What each does. */
  const SEEN: Readonly<Record<string, (recipe: Recipe) => Promise<void>>> = {
    'Lock out guessers': async (recipe) => {
      await does(recipe, 'rowan import');
      await serves(recipe);
      for (let n = 0; n < 4; n++) expect(await bind(ADA, 'guess')).to.equal(REFUSED);
      expect(await bind(ADA, PASSWORD)).to.equal(DONE);
      for (let n = 0; n < 5; n++) expect(await bind(ADA, 'guess')).to.equal(REFUSED);
      expect(await bind(ADA, PASSWORD)).to.equal(REFUSED);
      expect(await does(recipe, 'rowan account show')).to.match(/locked .*until 20\d\d/);
      await does(recipe, 'rowan account unlock');
      expect(await bind(ADA, PASSWORD)).to.equal(DONE);
    },
    'Expiry with grace logins': async (recipe) => {
      await does(recipe, 'rowan import');
      expect(await bind(ADA, PASSWORD)).to.equal(DONE);
      await does(recipe, 'rowan account expire');
      for (const left of [2, 1, 0]) expect(await bind(ADA, PASSWORD)).to.equal(`0 3005a00381010${left}`);
      expect(await bind(ADA, PASSWORD)).to.equal('49 3003810100');
      await replaces(ADA, 'userPassword', PASSWORD);
    },
    'A helpdesk that resets, and users who must change': async (recipe) => {
      await does(recipe, 'rowan import');
      await does(recipe, 'rowan access apply');
      const GRACES = 'given by Grace';
      await does(recipe, `ldappasswd -x -H ${URL_OF_PAGE} -D ${GRACE}`, GRACES, GRACES, PASSWORD);
      expect(await bind(HANA, GRACES)).to.equal('0 3003810102');
      expect(await searches(HANA, GRACES)).to.equal(50);
      await does(
        recipe,
        `ldappasswd -x -H ${URL_OF_PAGE} -D ${HANA}`,
        GRACES,
        GRACES,
        'chosen by Hana',
        'chosen by Hana',
        GRACES,
      );
      expect(await searches(HANA, 'chosen by Hana')).to.equal(0);
    },
    'Migration from slapd': async (recipe) => {
      await does(recipe, 'rowan import');
      expect(await does(recipe, 'rowan account show')).to.match(/pwdAccountLockedTime/);
      expect(await bind(LENA, OF_SLAPD)).to.equal(REFUSED);
      await replaces(LENA, 'pwdAccountLockedTime');
      expect(await bind(LENA, OF_SLAPD)).to.match(/^0 /);
      expect(await searches(MILAN, OF_SLAPD)).to.equal(50);
    },
    'An application password for a mail client': async (recipe) => {
      const said = await does(recipe, 'rowan account password add');
      const [, clear] = /: ([a-z2-9-]{27}) /.exec(said)!;
      expect(await bind(ADA, clear!)).to.equal(DONE);
      expect(await does(recipe, 'rowan account password list')).to.match(/^phone: .*expires 20/m);
      await does(recipe, 'rowan account password revoke');
      expect(await bind(ADA, clear!)).to.equal(REFUSED);
    },
    'A second factor': async (recipe) => {
      await does(recipe, 'openssl');
      const said = await does(recipe, 'rowan account totp enroll');
      const secret = fromBase32(/[?&]secret=([A-Z2-7]+)/.exec(said)![1]!);
      await serves(recipe);
      expect(await bind(ADA, PASSWORD)).to.equal(REFUSED);
      expect(await bind(ADA, `${PASSWORD}${hotpCode(secret, stepAt(Date.now()))}`)).to.match(/^0 /);
    },
  };

  it('are six, each of which is tried', () => {
    expect(recipes().map(({ title }) => title)).to.deep.equal(Object.keys(SEEN));
  });

  for (const recipe of recipes())
    it(`${recipe.title}: files and commands do as they stand what the page says`, async () => {
      for (const [name, text] of recipe.files) writeFileSync(sandbox.path(name), text);
      await SEEN[recipe.title]!(recipe);
    });
});

/** RFC 4648 §6. */
function fromBase32(text: string): Buffer {
  const bits = [...text].map((letter) =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'),
  );
  return Buffer.from(
    bits
      .join('')
      .match(/.{8}/g)!
      .map((byte) => Number.parseInt(byte, 2)),
  );
}
