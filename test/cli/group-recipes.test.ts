import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { needs } from '../require.js';
import { ADMIN, MAIN, PASSWORD, type RunningServer, run, Sandbox, SUFFIX } from './rowan.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/groups.md'), 'utf8');

/** A file that is to be written, a command, or what the command before it answers. */
type Step =
  | { readonly kind: 'file'; readonly name: string; readonly text: string }
  | { readonly kind: 'command' | 'answer'; readonly text: string };

interface Recipe {
  readonly title: string;
  readonly steps: readonly Step[];
}

function recipes(): Recipe[] {
  const section = /^## Seven recipes\n([\s\S]*?)^## /m.exec(page)![1]!;
  return section
    .split(/^### /m)
    .slice(1)
    .map((text) => ({ title: text.split('\n', 1)[0]!, steps: stepsIn(text) }));
}

function stepsIn(text: string): Step[] {
  const steps: Step[] = [];
  for (const [, name, file, answer, command] of text.matchAll(
    /`([\w.]+\.ldif)`:\n\n```ldif\n([\s\S]*?)^```|^```text\n([\s\S]*?)^```|^ {4}(\S.*)$/gm,
  )) {
    if (name !== undefined) steps.push({ kind: 'file', name, text: file! });
    else if (answer !== undefined) steps.push({ kind: 'answer', text: answer });
    else steps.push({ kind: 'command', text: command! });
  }
  return steps;
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');

describe('group recipes', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async function () {
    needs(this, 'ldap-utils');
    await sandbox.initSample();
    mkdirSync(sandbox.path('bin'));
    writeFileSync(sandbox.path('bin/rowan'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
    chmodSync(sandbox.path('bin/rowan'), 0o755);
    writeFileSync(sandbox.path('password'), PASSWORD, { mode: 0o600 });
    server = await sandbox.serve();
  });
  after(() => sandbox.remove());

  /** Does it as it stands; what it says. The port of a server is a free one. */
  async function does(command: string): Promise<string> {
    if (command.startsWith('rowan serve ')) {
      const [data, listen, ...args] = command.split(' --').slice(1);
      expect([data, listen]).to.deep.equal(['data data', 'listen ldap://localhost:1389']);
      await server.stop();
      server = await sandbox.serve(args.flatMap((arg) => `--${arg}`.split(' ')));
      return '';
    }
    const env = {
      PATH: `${sandbox.path('bin')}:${process.env.PATH}`,
      LDAPURI: server.url,
      LDAPBASE: SUFFIX,
      LDAPBINDDN: ADMIN,
    };
    const { stdout, stderr } = await run('sh', ['-c', command], { cwd: sandbox.folder, env, input: '' });
    return stdout + stderr;
  }

  it('are asked with what the page exports', () => {
    const [, exported] = /^ {4}export (.*)$/m.exec(page)!;
    expect(exported).to.equal(`LDAPURI=ldap://localhost:1389 LDAPBASE=${SUFFIX} LDAPBINDDN=${ADMIN}`);
    expect(recipes()).to.have.lengthOf(7);
  });

  for (const { title, steps } of recipes())
    it(`${title}: files and commands do as they stand what the page says`, async () => {
      expect(steps.filter(({ kind }) => kind === 'answer')).to.not.deep.equal([]);
      let said = '';
      for (const step of steps) {
        if (step.kind === 'file') writeFileSync(sandbox.path(step.name), step.text);
        else if (step.kind === 'command') said = await does(step.text);
        else expect(lines(said), said).to.deep.equal(lines(step.text));
      }
    });

  it('memberOf goes with all attributes where the server is started so', async () => {
    const [command] = recipes().flatMap(({ steps }) => steps.filter(({ text }) => text.endsWith('member-of all')));
    await does(command!.text);
    expect(await does('ldapsearch -x -y password -LLL "(uid=bram)"')).to.match(/^memberOf: cn=developers,/m);
  });
});
