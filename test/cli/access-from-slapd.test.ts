import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { LAUNCHER, run, Sandbox } from './rowan.js';

const CONF = `access to attrs=userPassword
  by self write
  by anonymous auth
access to attrs=cn by set="this/owner" read
`;
const RULES = `# Rules made from another server's access lines (rowan access from-slapd).
# Read them, run "rowan access diff" and "rowan access test", and then "rowan access apply".

rules:
  # line 1: to attrs=userPassword by self write
  - name: line 1, by self write
    who:
      self: true
    to:
      attributes:
        - userPassword
    allow: [ read, compare, write ]
`;
const TOLD = `line 1: note: 'anonymous auth': binding needs no right here, so this gives nothing
line 4: not translated: no rule can say 'set=this/owner'
2 lines read; the rules are not exact (1 × not translated, 1 × note)
`;

describe('rowan access from-slapd', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  const fromSlapd = (...args: string[]) => run(process.execPath, [LAUNCHER, 'access', 'from-slapd', ...args]);
  const file = (name: string, text: string): string => {
    writeFileSync(sandbox.path(name), text);
    return sandbox.path(name);
  };

  it('prints the rules, and on standard error what they are not', async () => {
    const ended = await fromSlapd(file('slapd.conf', CONF));
    expect(ended.stderr).to.equal(TOLD);
    expect(ended.stdout).to.equal(RULES);
    expect(ended.code).to.equal(0);
  });

  it('writes them to a file', async () => {
    const output = sandbox.path('rules.yaml');
    const ended = await fromSlapd(file('slapd.conf', CONF), '--output', output);
    expect([ended.code, ended.stdout, ended.stderr]).to.deep.equal([0, '', TOLD]);
    expect(readFileSync(output, 'utf8')).to.equal(RULES);
  });

  it('tells what is exact', async () => {
    const { code, stderr } = await fromSlapd(file('exact.conf', 'access to attrs=cn by users read\n'));
    expect([code, stderr]).to.deep.equal([0, '1 line read; the rules are exact\n']);
  });

  it('fails where nothing can be read', async () => {
    const path = file('none.conf', 'loglevel stats\n');
    const ended = await fromSlapd(path, '--output', sandbox.path('nothing.yaml'));
    const why = "has no 'access', 'olcAccess' or 'aci' that can be read: nothing is written";
    expect([ended.code, ended.stdout, ended.stderr]).to.deep.equal([1, '', `rowan: ${path} ${why}\n`]);
    expect((await fromSlapd(sandbox.path('nowhere.conf'))).code).to.equal(1);
  });
});
