import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ADMIN, MAIN, PASSWORD, rowanDoes, run, Sandbox, SUFFIX } from './rowan.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/operations.md'), 'utf8');

/** The commands of the section, in their order. */
function commands(): string[] {
  const section = /^## Backup and restore\n([\s\S]*?)^## /m.exec(page)![1]!;
  return [...section.matchAll(/^ {4}(\S.*)$/gm)].map((match) => match[1]!);
}

const SCHEMA = `attributeTypes: ( 1.3.6.1.4.1.55555.1.1 NAME 'badgeNumber' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
objectClasses: ( 1.3.6.1.4.1.55555.1.2 NAME 'badged' SUP top AUXILIARY MAY badgeNumber )
`;
const RULES = `rules:
  - name: nobody but ann reads
    who: { dn: "cn=ann,${SUFFIX}" }
    allow: [view]
limits:
  - { who: { dn: "cn=ann,${SUFFIX}" }, sizeLimit: 7 }
`;
const ENTRIES = `dn: ${SUFFIX}
objectClass: domain
dc: example

dn: cn=ann,${SUFFIX}
objectClass: inetOrgPerson
objectClass: badged
cn: ann
sn: ann
mail: ann@example.com
badgeNumber: 7
description: the first
seeAlso: cn=ann,${SUFFIX}
userPassword: secret

`;

describe('backup and restore', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  it('done as the page says, bring back all of the directory', async () => {
    const original = ['--data', sandbox.path('data')];
    mkdirSync(sandbox.path('own'));
    writeFileSync(sandbox.path('own/badge.ldif'), SCHEMA);
    writeFileSync(sandbox.path('rules.yaml'), RULES);
    const names = ['--suffix', SUFFIX, '--admin-dn', ADMIN, '--schema-folders', sandbox.path('own')];
    await rowanDoes(['init', ...original, ...names], { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
    await rowanDoes(['import', ...original, '-'], { input: ENTRIES });
    for (const change of [
      ['index', 'add', 'description'],
      ['index', 'add', 'seeAlso'],
      ['unique', 'add', 'mail'],
      ['number', 'set', 'uidNumber', '10000', '59999'],
      ['references', 'set', 'member', 'uniqueMember', 'manager', 'owner', 'seeAlso'],
      ['access', 'apply', sandbox.path('rules.yaml')],
    ])
      await rowanDoes([...change, ...original]);

    mkdirSync(sandbox.path('bin'));
    writeFileSync(sandbox.path('bin/rowan'), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
    chmodSync(sandbox.path('bin/rowan'), 0o755);
    const env = { PATH: `${sandbox.path('bin')}:${process.env.PATH}`, ROWAN_ADMIN_PASSWORD: PASSWORD };
    const script = commands().join('\n');
    const { code, stdout, stderr } = await run('sh', ['-ec', script], { cwd: sandbox.folder, env });
    expect(code, `${stdout}${stderr}`).to.equal(0);

    for (const question of [
      ['export'],
      ['access', 'show'],
      ['schema', 'show', '--text'],
      ['index', 'list'],
      ['unique', 'show'],
      ['number', 'show'],
      ['references', 'show'],
    ]) {
      // The schema is given back in another file, whose name stands in a comment.
      const says = async (data: string[]) => (await rowanDoes([...question, ...data])).replace(/^# .*\.ldif\n/gm, '');
      const answer = await says(original);
      expect(await says(['--data', sandbox.path('restored')]), question.join(' ')).to.equal(answer);
      expect(answer, question.join(' ')).to.not.equal('');
    }
  });
});
