import { mkdirSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Client, InsufficientAccessError, NoSuchObjectError } from 'ldapts';
import {
  ADA,
  ADMIN,
  type Ended,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowan,
  rowanDoes,
  Sandbox,
  SUFFIX,
} from './rowan.js';

const BRAM = `uid=bram,${PEOPLE}`;
const VPN = `cn=vpn,ou=groups,${SUFFIX}`;

/** Of people of the group the telephone numbers are theirs to change, but for their own. */
const RULES = `rules:
  - name: users read
    who: { users: true }
    allow: [view]
  - name: vpn writes telephone numbers
    who: { group: "${VPN}" }
    to: { subtree: "${PEOPLE}", attributes: [telephoneNumber] }
    allow: [write]
  - name: not their own
    who: { self: true }
    to: { attributes: [telephoneNumber] }
    deny: [write]
  - name: passwords for programs
    who: { group: "${VPN}" }
    to: { subtree: "${PEOPLE}", attributes: [userPassword] }
    allow: [read]
limits:
  - { name: vpn, who: { group: "${VPN}" }, sizeLimit: 50, timeLimit: 1 m, lookLimit: 0 }
`;

describe('cli: access', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async () => {
    await sandbox.initSample();
    for (const dn of [ADA, BRAM]) await rowanDoes(['passwd', '--data', sandbox.data, dn], { input: PASSWORD });
    server = await sandbox.serve();
  });
  after(() => sandbox.remove());

  /** The command beside the running server. */
  const access = (...args: readonly string[]): Promise<Ended> => rowan(['access', ...args, '--data', sandbox.data]);
  const accessDoes = (...args: readonly string[]): Promise<string> =>
    rowanDoes(['access', ...args, '--data', sandbox.data]);

  function file(name: string, text: string): string {
    const path = sandbox.path(name);
    writeFileSync(path, text);
    return path;
  }

  async function bound(dn: string): Promise<Client> {
    const client = new Client({ url: server.url, timeout: 10_000 });
    await client.bind(dn, PASSWORD);
    return client;
  }

  /** Whether the modify is taken. */
  async function writesTelephone(client: Client, dn: string): Promise<boolean> {
    const { Attribute, Change } = await import('ldapts');
    const modification = new Attribute({ type: 'telephoneNumber', values: ['+49 1234 5678'] });
    try {
      await client.modify(dn, new Change({ operation: 'replace', modification }));
      return true;
    } catch (error) {
      expect(error).to.be.instanceOf(InsufficientAccessError);
      return false;
    }
  }

  it('show: the rules in force, with which the directory was made', async () => {
    const text = await accessDoes('show');
    expect(text).to.match(/^# Users read all but secrets/);
    expect(text).to.include('- name: own password');
    expect(await accessDoes('history')).to.match(/^1 {2}\S+Z {2}2 rules {2}\(by rowan init\)\n$/);
  });

  it('apply: rules hold for sessions that are open, at once and together', async () => {
    const ada = await bound(ADA);
    expect(await writesTelephone(ada, BRAM)).to.equal(false);
    expect(await accessDoes('apply', file('rules.yaml', RULES))).to.equal(
      'in force as version 2: 4 rules, 1 limit\nin place of version 1 (2 rules)\n',
    );
    expect(await writesTelephone(ada, BRAM)).to.equal(true);
    expect(await writesTelephone(ada, ADA)).to.equal(false);
    expect(await accessDoes('show')).to.equal(RULES);
    expect(await accessDoes('apply', sandbox.path('rules.yaml'))).to.equal(
      'these rules are in force already, as version 2: 4 rules, 1 limit\n',
    );
    await ada.unbind();
  });

  it('apply: a file with faults changes nothing and tells all of them', async () => {
    const faulty = `rules:
- name: a
  who: { userz: true }
  allow: [view]
- name: b
  who: { users: true }
  to: { attributes: [pwdRset] }
  allow: [view]
`;
    const ended = await access('apply', file('faulty.yaml', faulty));
    expect([ended.code, ended.stdout]).to.deep.equal([1, '']);
    expect(ended.stderr.split('\n')).to.deep.equal([
      "rowan: faulty.yaml:3: rule 'a': who has no key 'userz'; did you mean 'users'?",
      `rowan: faulty.yaml:7: rule 'b': attribute 'pwdRset' is not in the schema; did you mean 'pwdReset'? "rowan schema set" defines others`,
      '',
    ]);
    expect(await accessDoes('show')).to.equal(RULES);
  });

  it('apply: what the directory does not hold is a fault, or a warning', async () => {
    const rule = (name: string, who: string, to: string) =>
      `- { name: ${name}, who: ${who}, to: ${to}, allow: [view] }`;
    const text = [
      'rules:',
      rule('group', `{ group: "cn=nobody,${SUFFIX}" }`, '{}'),
      rule('groupless', `{ not: { group: "${ADA}" } }`, '{}'),
      rule('base', '{}', '{ base: "o=elsewhere" }'),
      rule('above', '{}', '{ one: "dc=com" }'),
      rule('far above', '{}', '{ base: "dc=com" }'),
      rule('monitor', '{}', '{ base: "cn=Monitor" }'),
      rule('subschema', '{}', '{ base: "cn=Subschema" }'),
      rule('missing', `{ dn: "uid=nobody,${PEOPLE}" }`, `{ subtree: "ou=nowhere,${SUFFIX}" }`),
      rule('administrator', `{ dn: "${ADMIN}" }`, '{}'),
      rule('subtree', '{ subtree: "o=elsewhere" }', '{}'),
    ].join('\n');
    const ended = await access('apply', file('far.yaml', text));
    expect(ended.code).to.equal(1);
    const holds = `this directory holds '${SUFFIX}'`;
    expect(ended.stderr.split('\n')).to.deep.equal([
      `rowan: warning: far.yaml:3: rule 'groupless': '${ADA}' has no member, uniqueMember or memberURL: nobody is in this group as yet`,
      `rowan: warning: far.yaml:9: rule 'missing': the user 'uid=nobody,${PEOPLE}' is not there; the rule holds once it is`,
      `rowan: warning: far.yaml:9: rule 'missing': 'ou=nowhere,${SUFFIX}' is not there; it holds once it is`,
      `rowan: warning: far.yaml:10: rule 'administrator': '${ADMIN}' is the administrator, who is above rules; the rule says nothing of it`,
      `rowan: far.yaml:2: rule 'group': the group 'cn=nobody,${SUFFIX}' is not there; add it first, or correct its name`,
      `rowan: far.yaml:4: rule 'base': this never applies: 'o=elsewhere' is below no suffix: ${holds}`,
      `rowan: far.yaml:6: rule 'far above': this never applies: 'dc=com' is below no suffix: ${holds}`,
      `rowan: far.yaml:8: rule 'subschema': this never applies: cn=Subschema is shown to everybody, whatever the rules`,
      `rowan: far.yaml:11: rule 'subtree': no user lies below 'o=elsewhere': ${holds}`,
      '',
    ]);
  });

  it('apply: asks which rules', async () => {
    for (const args of [[], ['rules.yaml', '--version', '1'], ['--version', '1', '--preset', 'closed']]) {
      const { code, stderr } = await access('apply', ...args);
      expect([code, stderr]).to.deep.equal([
        2,
        'rowan: which rules? give a file, --version or --preset, one of them\n',
      ]);
    }
    expect(await access('apply', '--version', '77')).to.deep.include({
      code: 1,
      stderr: 'rowan: there are no access rules of version 77; "rowan access history" lists them\n',
    });
    expect(await access('apply', sandbox.path('nothing.yaml'))).to.deep.include({
      code: 1,
      stderr: `rowan: ${sandbox.path('nothing.yaml')}: no such file or folder\n`,
    });
    expect((await access('apply', '--preset', 'open')).code).to.equal(2);
    expect((await access('show', '--version', 'one')).code).to.equal(2);
  });

  it('diff: rules added, removed and changed, whatever their form and order', async () => {
    const other = `limits:
  - { name: vpn, who: { group: "${VPN}" }, sizeLimit: 50, timeLimit: 1 m, lookLimit: 0 }
rules:
  - name: not their own
    deny: [write]
    to: { attributes: [telephoneNumber] }
    who:
      self: true
  - name: users read
    who: { users: true }
    allow: [view]
  - name: vpn writes telephone numbers
    who: { group: "${VPN}" }
    to: { subtree: "${PEOPLE}", attributes: [telephoneNumber, mobile] }
    allow: [write]
  - name: new
    who: { anonymous: true }
    allow: [see]
`;
    expect(await accessDoes('diff', file('other.yaml', other))).to.equal(`version 2 to other.yaml:
added rule 'new'
  + name: new
  + who:
  +   anonymous: true
  + allow:
  +   - see
removed rule 'passwords for programs'
  - name: passwords for programs
  - who:
  -   group: ${VPN}
  - to:
  -   subtree: ${PEOPLE}
  -   attributes:
  -     - userPassword
  - allow:
  -   - read
changed rule 'vpn writes telephone numbers'
    name: vpn writes telephone numbers
    who:
      group: ${VPN}
    to:
      subtree: ${PEOPLE}
      attributes:
        - telephoneNumber
  +     - mobile
    allow:
      - write
1 added, 1 removed, 1 changed; 3 are the same
`);
    expect(await accessDoes('show')).to.equal(RULES);
  });

  it('explain: each right and the rules that decide', async () => {
    const to = ['--to', ADA];
    expect(
      await accessDoes('explain', '--as', BRAM, ...to, '--attribute', 'telephoneNumber'),
    ).to.equal(`${BRAM} (by a socket of this machine, 256 bits)
on telephoneNumber of ${ADA}

right    given  by
read     yes    'users read'
search   yes    'users read'
compare  yes    'users read'
add      no     no rule grants it
delete   no     no rule grants it
replace  no     no rule grants it
manage   no     no rule grants it
`);
    const own = await accessDoes('explain', '--as', ADA, ...to, '--attribute', 'telephoneNumber', '--right', 'write');
    expect(own.split('\n').slice(3)).to.deep.equal([
      'right    given  by',
      "add      no     denied by 'not their own'",
      "delete   no     denied by 'not their own'",
      "replace  no     denied by 'not their own'",
      '',
    ]);
    const whole = await accessDoes('explain', '--as', ADA, '--to', BRAM);
    expect(whole)
      .to.match(/^see +yes +'users read'$/m)
      .and.to.match(/^remove +no +no rule grants it$/m);
    expect(whole).to.match(/^read, search, compare +cn, .*uid/m);
    expect(whole).to.match(/^read, search, compare, add, delete, replace +telephoneNumber$/m);
    expect(whole).to.match(/^limits: sizeLimit 50, lookLimit without limit, timeLimit 60 s$/m);
    const nobody = await accessDoes('explain', '--as', 'anonymous', ...to, '--attribute', 'cn', '--right', 'read');
    expect(nobody).to.match(/^read +no +the entry is not visible to this user: no rule grants it$/m);
  });

  it('explain: secrets go out where nobody listens in, and are never searched', async () => {
    const ask = (right: string, ...way: readonly string[]) =>
      accessDoes('explain', '--as', ADA, '--to', BRAM, '--attribute', 'userPassword', '--right', right, ...way);
    expect(await ask('read')).to.match(/^read +yes +'passwords for programs'$/m);
    expect(await ask('read', '--address', '192.0.2.7', '--tls', '128')).to.match(/^read +yes +/m);
    expect(await ask('read', '--address', '192.0.2.7', '--tls', '0')).to.match(
      /^read +no +'passwords for programs' gives it under TLS or by a socket of this machine alone$/m,
    );
    expect(await ask('search')).to.match(/^search +no +no rule grants it$/m);
  });

  it('explain: what cannot be asked', async () => {
    const said = async (...args: readonly string[]) => {
      const { code, stderr } = await access('explain', ...args);
      return [code, stderr.trim()];
    };
    expect(await said('--as', ADMIN, '--to', ADA)).to.deep.equal([
      1,
      'rowan: the administrator is above rules, and may do everything',
    ]);
    expect(await said('--as', `uid=nobody,${PEOPLE}`, '--to', ADA)).to.deep.equal([
      1,
      `rowan: 'uid=nobody,${PEOPLE}' does not exist, so its rights cannot be explained`,
    ]);
    expect((await said('--as', ADA, '--to', `uid=nobody,${PEOPLE}`))[1]).to.match(/\(noSuchObject\)$/);
    expect(await said('--as', ADA, '--to', ADA, '--right', 'read')).to.deep.equal([
      2,
      "rowan: 'read' is a right on attributes; name one (--attribute)",
    ]);
    expect((await said('--as', ADA, '--to', ADA, '--right', 'reed'))[0]).to.equal(2);
    expect((await said('--as', ADA, '--to', ADA, '--attribute', 'cm'))[0]).to.equal(2);
    expect((await said('--as', ADA, '--to', ADA, '--address', 'localhost'))[0]).to.equal(2);
    expect((await said('--as', 'ada', '--to', ADA))[0]).to.equal(2);
    expect((await said('--as', ADA, '--to', ADA, '--tls', '257'))[0]).to.equal(2);
  });

  it('test: a table of expectations that hold', async () => {
    const table = `- { as: "${ADA}", to: "${BRAM}", attribute: telephoneNumber, can: [view, write] }
- { as: "${ADA}", to: "${ADA}", attribute: telephoneNumber, can: [read], cannot: [write] }
- { as: anonymous, to: "${BRAM}", cannot: [see] }
- { as: "${ADA}", address: 192.0.2.7, tls: 0, to: "${BRAM}", attribute: userPassword, cannot: [read] }
- { as: anonymous, to: "${BRAM}", right: see, expect: deny }
- { as: "${ADA}", to: "${BRAM}", attribute: telephoneNumber, right: replace, expect: allow }
`;
    expect(await accessDoes('test', file('table.yaml', table))).to.equal('6 expectations, 0 not as expected\n');
  });

  it('test: what is not as expected is told with line and rule, also of other rules', async () => {
    const table = `- as: "${ADA}"
  to: "${ADA}"
  attribute: telephoneNumber
  can: [read, replace]
- { as: "${BRAM}", to: "${ADA}", cannot: [see], can: [remove] }
- { as: "uid=nobody,${PEOPLE}", to: "${ADA}", can: [see] }
- { as: anonymous, to: "uid=nobody,${PEOPLE}", can: [see] }
- { as: "${BRAM}", to: "${ADA}", right: see, expect: deny }
`;
    const ended = await access('test', file('table.yaml', table));
    expect([ended.code, ended.stdout]).to.deep.equal([1, '5 expectations, 5 not as expected\n']);
    const [first, second, third, fourth, fifth, sixth] = ended.stderr.split('\n');
    expect([first, second, third, fourth]).to.deep.equal([
      `rowan: table.yaml:1: ${ADA} cannot 'replace' on attribute 'telephoneNumber' of ${ADA}: denied by 'not their own'`,
      `rowan: table.yaml:5: ${BRAM} cannot 'remove' on ${ADA}: no rule grants it`,
      `rowan: table.yaml:5: ${BRAM} can 'see' on ${ADA}: given by 'users read'`,
      `rowan: table.yaml:6: 'uid=nobody,${PEOPLE}' does not exist, so its rights cannot be explained`,
    ]);
    expect(fifth).to.match(/^rowan: table\.yaml:7: uid=nobody,/);
    expect(sixth).to.equal(`rowan: table.yaml:8: ${BRAM} can 'see' on ${ADA}: given by 'users read'`);
    const open = file('open.yaml', 'rules:\n- { name: all, who: {}, allow: [view, write, remove] }\n');
    const other = file('first.yaml', table.split('\n').slice(0, 4).join('\n'));
    expect(await accessDoes('test', other, '--rules', open)).to.equal('1 expectation, 0 not as expected\n');
  });

  it('test: faults of the table are told with their lines', async () => {
    const table = `- { as: anonymous, to: "${ADA}" }
- { to: "${ADA}", can: [see] }
- { as: "x", to: "${ADA}", can: [see] }
- { as: anonymous, to: "${ADA}", attribute: cm, can: [reed] }
- { as: anonymous, to: "${ADA}", can: [read], address: here, tls: 300 }
- { as: anonymous, to: "${ADA}", attribute: cn, cannot: [remove], kann: [see] }
- { as: anonymous, to: "${ADA}", right: see }
- { as: anonymous, to: "${ADA}", can: [see], expect: deny }
`;
    const { code, stderr } = await access('test', file('faulty.yaml', table));
    expect(code).to.equal(1);
    expect(stderr.trim().split('\n')).to.deep.equal([
      "rowan: faulty.yaml:1: it expects nothing; add 'can', 'cannot', or 'right' and 'expect'",
      "rowan: faulty.yaml:2: it has no 'as': a DN, or 'anonymous'",
      "rowan: faulty.yaml:3: 'as': invalid DN at byte 1: 'x' has no '='; a DN is written like 'ou=people,dc=example,dc=com'",
      `rowan: faulty.yaml:4: 'attribute': attribute 'cm' is not in the schema; did you mean 'cn'? "rowan schema set" defines others`,
      "rowan: faulty.yaml:4: 'reed' is no right; did you mean 'read'?",
      "rowan: faulty.yaml:5: 'here' is no address",
      "rowan: faulty.yaml:5: 'tls' has to be a whole number from 0 to 256",
      "rowan: faulty.yaml:5: 'read' is a right on attributes; name one",
      "rowan: faulty.yaml:6: an expectation has no key 'kann'; did you mean 'can'?",
      "rowan: faulty.yaml:6: 'remove' is no right on an attribute; leave the attribute away",
      "rowan: faulty.yaml:7: 'right' goes with 'expect: allow' or 'expect: deny'",
      "rowan: faulty.yaml:8: 'right' goes with 'expect: allow' or 'expect: deny'",
    ]);
    const none = await access('test', file('none.yaml', '# none\n'));
    expect([none.code, none.stderr]).to.deep.equal([
      1,
      'rowan: none.yaml:1: there are no expectations; write a list of them, like - { as: DN, to: DN, can: [read] }\n',
    ]);
  });

  it('apply --version and --preset bring others back, and history tells all', async () => {
    const ada = await bound(ADA);
    expect(await accessDoes('apply', '--preset', 'closed')).to.equal(
      'in force as version 3: 2 rules\nin place of version 2 (4 rules, 1 limit)\n',
    );
    const gone = await ada.search(BRAM, { scope: 'base' }).catch((error: unknown) => error);
    expect(gone).to.be.instanceOf(NoSuchObjectError);
    expect((await ada.search(ADA, { scope: 'base' })).searchEntries).to.have.lengthOf(1);
    expect(await accessDoes('apply', '--version', '2')).to.equal(
      'in force as version 4: 4 rules, 1 limit\nin place of version 3 (2 rules)\n',
    );
    expect((await ada.search(BRAM, { scope: 'base' })).searchEntries).to.have.lengthOf(1);
    const history = await accessDoes('history');
    expect(history.replaceAll(/ \S+Z /g, ' TIME ').split('\n')).to.deep.equal([
      `4  TIME  4 rules, 1 limit  (by ${userInfo().username}@${hostname()})`,
      `3  TIME  2 rules  (by ${userInfo().username}@${hostname()})`,
      `2  TIME  4 rules, 1 limit  (by ${userInfo().username}@${hostname()})`,
      '1  TIME  2 rules  (by rowan init)',
      '',
    ]);
    expect(await accessDoes('show', '--version', '3')).to.match(/^# Users read themselves alone/);
    await ada.unbind();
  });

  it('a schema that lacks what the rules in force name is not taken', async () => {
    const made = new Sandbox();
    try {
      const folder = made.path('schema');
      mkdirSync(folder);
      const badge = "( 1.3.6.1.4.1.99999.1 NAME 'badge' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
      writeFileSync(join(folder, 'site.ldif'), `dn: cn=schema\nattributeTypes: ${badge}\n`);
      await made.init();
      await rowanDoes(['schema', 'set', '--data', made.data, '--schema-folders', folder]);
      const rules = made.path('badge.yaml');
      writeFileSync(rules, 'rules:\n- name: badges\n  who: {}\n  to: { attributes: [badge] }\n  allow: [read]\n');
      await rowanDoes(['access', 'apply', rules, '--data', made.data]);
      expect(await rowan(['schema', 'set', '--data', made.data, '--without-files'])).to.deep.equal({
        code: 1,
        stdout: '',
        stderr: `rowan: the access rules in force, version 2:4: rule 'badges': attribute 'badge' is not in the schema; "rowan schema set" defines others\n`,
      });
      await rowanDoes(['access', 'apply', '--version', '1', '--data', made.data]);
      await rowanDoes(['schema', 'set', '--data', made.data, '--without-files']);
    } finally {
      await made.remove();
    }
  });

  it('init --access: the directory begins with the rules of the preset', async () => {
    const made = new Sandbox();
    try {
      const init = ['init', '--data', made.data, '--suffix', SUFFIX, '--admin-dn', ADMIN, '--access'];
      const env = { ROWAN_ADMIN_PASSWORD: PASSWORD };
      const wrong = await rowan([...init, 'open'], { env });
      expect([wrong.code, wrong.stderr]).to.deep.equal([
        2,
        "rowan: --access: 'open' is none of users-read, anybody-reads, self-service, closed\n",
      ]);
      await rowanDoes([...init, 'self-service'], { env });
      const text = await rowanDoes(['access', 'show', '--data', made.data]);
      expect(text).to.include('- jpegPhoto').and.not.to.include('sshPublicKey');
    } finally {
      await made.remove();
    }
  });

  it('apply: password policies hold at once, and account show tells which one does and why', async () => {
    server = await sandbox.serve();
    const admin = await bound(ADMIN);
    const policy = `cn=policy,${SUFFIX}`;
    await admin.add(policy, { objectClass: ['device', 'pwdPolicy'], cn: 'policy', pwdAttribute: 'userPassword' });
    await admin.unbind();
    const show = async (dn: string) =>
      /^ {2}((?:no password )?policy.*)$/m.exec(await rowanDoes(['account', 'show', dn, '--data', sandbox.data]))?.[1];
    expect(await show(ADA)).to.equal('no password policy');
    const policies = (to: string) => `${RULES}passwordPolicies:
  - { name: people, policy: "${to}", to: { subtree: "${PEOPLE}" } }
`;
    const ended = await access('apply', file('policies.yaml', policies(PEOPLE)));
    expect([ended.code, ended.stderr]).to.deep.equal([
      1,
      `rowan: policies.yaml:20: password policy 'people': '${PEOPLE}' is no password policy; it needs the class pwdPolicy and pwdAttribute: userPassword\n`,
    ]);
    const version = Number((await accessDoes('history')).split(' ', 1)[0]);
    expect(await accessDoes('diff', file('policies.yaml', policies(policy)))).to.include(
      "added password policy 'people'",
    );
    expect(await accessDoes('apply', sandbox.path('policies.yaml'))).to.equal(
      `in force as version ${version + 1}: 4 rules, 1 limit, 1 password policy\nin place of version ${version} (4 rules, 1 limit)\n`,
    );
    expect(await show(ADA)).to.equal(`policy ${policy}, by 'people' among passwordPolicies of the access rules`);
    await accessDoes('apply', '--version', String(version));
    expect(await show(ADA)).to.equal('no password policy');
  });

  it('explain and test: who has bound with an application password', async () => {
    const rules = `rules:
- { name: people read, who: { mechanism: simple }, allow: [view] }
- { name: programs see, who: { mechanism: application }, to: { attributes: [entry, mail] }, allow: [see, read] }
`;
    await accessDoes('apply', file('mechanisms.yaml', rules));
    const asked = ['--as', ADA, '--to', BRAM, '--attribute', 'cn', '--right', 'read'];
    expect(await accessDoes('explain', ...asked)).to.match(/^read +yes +'people read'$/m);
    const told = await accessDoes('explain', ...asked, '--mechanism', 'application');
    expect(told)
      .to.match(/256 bits, bound with an application password\)$/m)
      .and.to.match(/^read +no +no rule grants it$/m);
    expect((await access('explain', ...asked, '--mechanism', 'kerberos')).code).to.equal(2);
    const table = `- { as: "${ADA}", mechanism: application, to: "${BRAM}", attribute: cn, cannot: [read] }
- { as: "${ADA}", mechanism: simple, to: "${BRAM}", attribute: cn, can: [read] }
`;
    expect(await accessDoes('test', file('table.yaml', table))).to.equal('2 expectations, 0 not as expected\n');
    const faulty = await access('test', file('faulty.yaml', table.replace('application', 'kerberos')));
    expect(faulty.stderr).to.equal(
      "rowan: faulty.yaml:1: nobody binds by mechanism 'kerberos'; there is simple, application\n",
    );
  });
});
