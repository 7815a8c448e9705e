import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { parse } from 'yaml';
import { translate } from '../../src/access/from-slapd/from-slapd.js';
import { parseRules } from '../../src/access/parse-rules.js';
import { Schema } from '../../src/schema/index.js';
import type { PlainRule } from './naive.js';

const schema = Schema.load();
const root = fileURLToPath(new URL('../../../', import.meta.url));
const SUFFIX = 'dc=example,dc=com';

/** Rules, which `parseRules` takes, each as one line without its name, and the remarks. */
function translated(text: string) {
  const { yaml, remarks, translatedCount } = translate(text, schema);
  expect(parseRules(yaml, schema).faults, yaml).to.deep.equal([]);
  const { rules } = parse(yaml) as { rules: PlainRule[] };
  const lines = rules.map(({ who, to, allow, deny }) =>
    JSON.stringify({ who, ...(to && { to }), ...(allow ? { allow } : { deny }) }).replaceAll('"', ''),
  );
  return {
    rules: lines,
    remarks: remarks.map(({ line, kind, text }) => `${line} ${kind}: ${text}`),
    read: translatedCount,
  };
}

/** Rules of `access to …`, without remarks. */
function exact(text: string): string[] {
  const { rules, remarks } = translated(text);
  expect(remarks.filter((one) => !/^\d+ (?:said|secrets):/.test(one))).to.deep.equal([]);
  return rules;
}

describe('rules from slapd', () => {
  it('a loss is told with who, what and line', () => {
    const { remarks } = translated(`access to attrs=employeeNumber by group="cn=hr,${SUFFIX}" write by * none
access to dn.subtree="ou=people,${SUFFIX}" by users read
access to * by group="cn=admins,${SUFFIX}" write`);
    expect(remarks.find((one) => one.startsWith('1 less'))).to.equal(
      `1 less: 'to attrs=employeeNumber by group=cn=hr,${SUFFIX} write' gives less where line 2 is about the same, since no rule can stop what line 3 gives there, and leave this`,
    );
  });

  const LIMITS = [
    `group.exact="cn=admins,${SUFFIX}" size=unlimited time=none`,
    'users size.soft=500 size.hard=1000 size.unchecked=20000 size.pr=100 size.prtotal=5',
    '* time.soft=10 time.hard=60',
  ];
  for (const [form, text] of Object.entries({
    'slapd.conf': `database mdb\nsuffix ${SUFFIX}\n${LIMITS.map((one) => `limits ${one}\n`).join('')}`,
    'cn=config': `dn: olcDatabase={1}mdb,cn=config\nolcDatabase: {1}mdb\nolcSuffix: ${SUFFIX}\n${LIMITS.map((one, i) => `olcLimits: {${i}}${one}\n`).join('')}`,
  }))
    it(`limits of ${form} become limits, each without those whom earlier ones are about`, () => {
      const { yaml, remarks } = translate(text, schema);
      expect(parseRules(yaml, schema).faults, yaml).to.deep.equal([]);
      const admins = { group: `cn=admins,${SUFFIX}` };
      expect((parse(yaml) as { limits: object[] }).limits.map((one) => ({ ...one, name: undefined }))).to.deep.equal([
        { name: undefined, who: admins, sizeLimit: 0, timeLimit: 0 },
        {
          name: undefined,
          who: { users: true, not: admins },
          sizeLimit: 1000,
          lookLimit: 20_000,
          pageSize: 100,
        },
        { name: undefined, who: { anonymous: true }, timeLimit: 60 },
      ]);
      const told = remarks.map(({ kind, text }) => `${kind}: ${text}`);
      expect(told).to.include("left: limits: no rule can say 'size.prtotal=5'");
      expect(told).to.include("said: 'size.soft=500': a search that asks for no limit gets the hard one here");
    });

  it('a soft limit does not lower the hard one, in whichever case it is written', () => {
    const { yaml } = translate(`database mdb\nsuffix ${SUFFIX}\nlimits users size.hard=500 size.SOFT=10\n`, schema);
    expect((parse(yaml) as { limits: object[] }).limits[0]).to.include({ sizeLimit: 500 });
  });

  it('roles that a line names keep what it gives them, and one rule stops the others', () => {
    const rules = exact(`access to attrs=employeeNumber
  by dn.exact="cn=payroll,${SUFFIX}" write
  by dnattr=manager read
  by self read
  by peername.ip=10.0.0.1 read
  by * none
access to * by users read`);
    expect(rules).to.deep.equal([
      `{who:{dn:cn=payroll,${SUFFIX}},to:{attributes:[employeeNumber]},allow:[read,search,compare,write]}`,
      '{who:{attribute:manager},to:{attributes:[employeeNumber]},allow:[read,search,compare]}',
      '{who:{self:true},to:{attributes:[employeeNumber]},allow:[read,search,compare]}',
      '{who:{network:10.0.0.1},to:{attributes:[employeeNumber]},allow:[read,search,compare]}',
      `{who:{users:true,not:[{dn:cn=payroll,${SUFFIX}},{attribute:manager},{self:true},{network:10.0.0.1}]},to:{attributes:[employeeNumber]},deny:[read,search,compare]}`,
      '{who:{users:true},allow:[view]}',
    ]);
  });

  describe('slapd levels and privileges', () => {
    const LEVELS: Readonly<Record<string, string | undefined>> = {
      none: undefined,
      disclose: undefined,
      auth: undefined,
      compare: 'compare',
      search: 'search,compare',
      read: 'read,search,compare',
      add: 'read,search,compare,add',
      delete: 'read,search,compare,delete',
      write: 'read,search,compare,write',
      manage: 'read,search,compare,write,manage',
      '=rsc': 'read,search,compare',
      '=w': 'write',
      '=az': 'write',
      '=z': 'delete',
      '=0': undefined,
      '+r': 'read',
      '-r': undefined,
      '': undefined,
    };
    for (const [level, rights] of Object.entries(LEVELS))
      it(`slapd level '${level}' becomes ${rights ?? 'nothing'}`, () => {
        const rules = exact(`access to attrs=cn by users ${level}`);
        expect(rules).to.deep.equal(
          rights === undefined ? [] : [`{who:{users:true},to:{attributes:[cn]},allow:[${rights}]}`],
        );
      });

    it('slapd privileges on entry and children become rights of the entry and below the entry', () => {
      expect(exact('access to attrs=entry by users read')).to.deep.equal([
        '{who:{users:true},to:{attributes:[entry]},allow:[see]}',
      ]);
      expect(exact('access to attrs=entry by users =r'), 'read without search').to.deep.equal([]);
      expect(exact('access to attrs=entry,children by users write')).to.deep.equal([
        '{who:{users:true},to:{attributes:[entry,children]},allow:[see,create,remove,rename,moveIn,moveOut]}',
      ]);
      expect(exact('access to attrs=entry,children by users delete')).to.deep.equal([
        '{who:{users:true},to:{attributes:[entry]},allow:[see,remove]}',
      ]);
    });

    it('slapd privileges by self give no right to create, remove or rename', () => {
      expect(exact('access to * by self write')).to.deep.equal([
        '{who:{self:true},allow:[view,write,moveIn]}',
        '{who:{self:true},to:{attributes:[userPassword]},allow:[write]}',
      ]);
    });

    it('the slapd privilege auth becomes no right, and the report says so', () => {
      const { remarks } = translated('access to attrs=userPassword by self write by anonymous auth');
      expect(remarks).to.deep.equal(["1 said: 'anonymous auth': binding needs no right here, so this gives nothing"]);
    });

    it('slapd privileges on attributes of the server alone become no rights', () => {
      expect(translated('access to attrs=pwdHistory by users read').rules).to.deep.equal([]);
      expect(exact('access to attrs=cn,pwdHistory by users =c')).to.deep.equal([
        '{who:{users:true},to:{attributes:[cn]},allow:[compare]}',
      ]);
    });

    it('slapd privileges on own values only are not translated', () => {
      const { rules, remarks } = translated('access to attrs=member by users selfwrite by * read');
      expect(rules).to.deep.equal(['{who:{anonymous:true},to:{attributes:[member]},allow:[read,search,compare]}']);
      expect(remarks).to.deep.equal([
        "1 left: 'users selfwrite': no rule is about the values alone that are the DN of who asks",
      ]);
    });
  });

  describe('slapd who clauses', () => {
    const CN = `cn=a,${SUFFIX}`;
    const EXACT: Readonly<Record<string, string>> = {
      '*': '{}',
      anonymous: '{anonymous:true}',
      users: '{users:true}',
      self: '{self:true}',
      [`dn="${CN}"`]: `{dn:${CN}}`,
      [`dn.exact="${CN}"`]: `{dn:${CN}}`,
      [`dn.base="${CN}"`]: `{dn:${CN}}`,
      [`dn.subtree="${CN}"`]: `{subtree:${CN}}`,
      [`dn.children="${CN}"`]: `{subtree:${CN},not:{dn:${CN}}}`,
      'dn.regex=".+"': '{users:true}',
      'dn.regex=".*"': '{}',
      [`dn.regex="^.+,${CN}$"`]: `{subtree:${CN},not:{dn:${CN}}}`,
      [`dn.regex="^(.+,)?${CN}$"`]: `{subtree:${CN}}`,
      'dn.exact=""': '{anonymous:true}',
      'dnattr=owner': '{attribute:owner}',
      'peername.ip=10.1.2.3': '{network:10.1.2.3}',
      'peername.ip=10.1.0.0%255.255.0.0': '{network:10.1.0.0/16}',
      'peername.ipv6=2001:db8::1': '{network:2001:db8::1}',
      'ssf=56': '{strength:56}',
      'ssf=0': '{}',
      'users ssf=56': '{users:true,strength:56}',
      [`dn.subtree="${SUFFIX}" dn.exact="${CN}"`]: `{dn:${CN}}`,
    };
    for (const [who, expected] of Object.entries(EXACT))
      it(`slapd who '${who}' is translated`, () => {
        expect(exact(`access to attrs=cn by ${who} =c`)).to.deep.equal([
          `{who:${expected},to:{attributes:[cn]},allow:[compare]}`,
        ]);
      });

    it('a slapd group includes nested groups, and the report says so', () => {
      const group = `cn=g,${SUFFIX}`;
      const nested = "whoever is in a group in the group counts here, too, and by 'member' and 'uniqueMember' alike";
      for (const key of ['group', 'group.exact', 'group/groupOfUniqueNames/uniqueMember', 'group/groupOfNames.exact']) {
        const { rules, remarks } = translated(`access to attrs=cn by ${key}="${group}" =c`);
        expect(rules).to.deep.equal([`{who:{group:${group}},to:{attributes:[cn]},allow:[compare]}`]);
        expect(remarks).to.deep.equal([`1 differs: '${key}=${group}': ${nested}`]);
      }
    });

    it('a slapd strength above that of local sockets is reported', () => {
      for (const who of ['ssf=128', 'tls_ssf=56'])
        expect(translated(`access to attrs=cn by ${who} =c`).remarks).to.deep.equal([
          `1 differs: '${who}': a socket of this machine counts as 256 bits here`,
        ]);
    });

    const LEFT = [
      'dn.regex="^uid=[^,]+,dc=x$"',
      `dn.one="${SUFFIX}"`,
      `dn.level{2}="${SUFFIX}"`,
      `dn.exact,expand="${CN}"`,
      'self.level{1}',
      'realself',
      'realusers',
      'set="this/owner & user"',
      'sockname.path=/run/ldapi',
      'sockurl=ldapi:///',
      'domain.exact=example.com',
      'peername.regex=IP:10.*',
      'peername.path=/run/ldapi',
      'peername.ip=10.1.2.3%255.0.0.0',
      'peername.ip=10.1.2.3{389}',
      'transport_ssf=56',
      'sasl_ssf=56',
      'aci',
      `group/posixGroup/memberUid="cn=g,${SUFFIX}"`,
    ];
    for (const who of LEFT)
      it(`slapd who '${who}' grants nothing and limits later lines`, () => {
        const { rules, remarks } = translated(`access to attrs=cn by ${who} =c by users read`);
        expect(
          remarks.some((one) => one.startsWith('1 left: no rule can say')),
          remarks.join(),
        ).to.equal(true);
        const all = '{who:{users:true},to:{attributes:[cn]},allow:[read,search,compare]}';
        expect(rules).not.to.include(all);
        const more = translated(`access to attrs=cn by ${who} write by users read`);
        expect(more.rules, 'where it gave more').to.deep.equal([all]);
      });

    it('a slapd who that matches nobody is left out', () => {
      const root = 'gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth';
      const { rules, remarks } = translated(
        `access to * by dn.exact=${root} manage by * break\naccess to attrs=cn by * read`,
      );
      expect(rules).to.deep.equal(['{who:{},to:{attributes:[cn]},allow:[read,search,compare]}']);
      expect(remarks).to.deep.equal([`1 said: nobody is '${root}' here; the administrator is above rules`]);
    });
  });

  describe('slapd what clauses', () => {
    const OU = `ou=a,${SUFFIX}`;
    const WHAT: Readonly<Record<string, string | undefined>> = {
      [`dn="${OU}"`]: `{base:${OU},attributes:[cn]}`,
      [`dn.exact="${OU}"`]: `{base:${OU},attributes:[cn]}`,
      [`dn.one="${OU}"`]: `{one:${OU},attributes:[cn]}`,
      [`dn.onelevel="${OU}"`]: `{one:${OU},attributes:[cn]}`,
      [`dn.sub="${OU}"`]: `{subtree:${OU},attributes:[cn]}`,
      [`dn.regex="^(.+,)?${OU}$"`]: `{subtree:${OU},attributes:[cn]}`,
      [`dn.regex="^[^,]+,${OU}$"`]: `{one:${OU},attributes:[cn]}`,
      [`dn.regex="^([^,]+),${OU}$"`]: `{one:${OU},attributes:[cn]}`,
      [`dn.regex="^${OU}$"`]: `{base:${OU},attributes:[cn]}`,
      'dn.regex=".*"': '{attributes:[cn]}',
      'dn.subtree=""': '{attributes:[cn]}',
      'filter=(objectClass=person)': '{filter:(objectClass=person),attributes:[cn]}',
    };
    for (const [what, to] of Object.entries(WHAT))
      it(`slapd what '${what}' is translated`, () => {
        expect(exact(`access to ${what} attrs=cn by users =c`)).to.deep.equal([
          `{who:{users:true},to:${to},allow:[compare]}`,
        ]);
      });

    it("slapd what 'dn.children' becomes the subtree without its top", () => {
      expect(exact(`access to dn.children="${OU}" attrs=cn by users =c`)).to.deep.equal([
        `{who:{users:true},to:{subtree:${OU},attributes:[cn]},allow:[compare]}`,
        `{who:{users:true},to:{base:${OU},attributes:[cn]},deny:[compare]}`,
      ]);
    });

    const ATTRS: Readonly<Record<string, string>> = {
      'cn,sn': '[cn,sn]',
      name: '[name]',
      '@organizationalUnit': '[@organizationalUnit]',
      '*': '[*]',
      '+': '[+]',
    };
    for (const [attrs, words] of Object.entries(ATTRS))
      it(`slapd what 'attrs=${attrs}' is translated`, () => {
        const [rule] = exact(`access to attrs=${attrs} by users =c`);
        expect(rule).to.equal(`{who:{users:true},to:{attributes:${words}},allow:[compare]}`);
      });

    it('a slapd what that rules cannot express grants nothing and limits later lines', () => {
      for (const what of [
        'attrs=cn val.regex=x',
        'attrs=cn;lang-en',
        'attrs=cn filter=(nothing=1)',
        'dn.regex="^uid=[^,]+,dc=x$" attrs=cn',
      ]) {
        const { rules, remarks } = translated(`access to ${what} by users read\naccess to attrs=cn,sn by users read`);
        expect(
          remarks.some((one) => one.startsWith('1 left:')),
          what,
        ).to.equal(true);
        expect(rules, 'it gave as much').to.deep.equal([
          '{who:{users:true},to:{attributes:[cn,sn]},allow:[read,search,compare]}',
        ]);
        const less = translated(`access to ${what} by users =c\naccess to attrs=cn by users read`);
        const reads = (kind: string) => less.rules.some((rule) => new RegExp(`${kind}:\\[[^\\]]*read`).test(rule));
        expect(!reads('allow') || reads('deny'), `${what}: ${less.rules.join()}`).to.equal(true);
      }
    });

    it('a slapd regular expression for one level does not limit other levels', () => {
      const { rules } = translated(
        `access to dn.regex="^uid=([^,]+),${OU}$" attrs=cn by * none\naccess to attrs=cn by * =c`,
      );
      expect(rules).to.deep.equal([
        `{who:{},to:{one:${OU},attributes:[cn]},deny:[compare]}`,
        '{who:{},to:{attributes:[cn]},allow:[compare]}',
      ]);
      for (const pattern of ['', '^$', `${OU}$`, `[^,]+,${OU}$`, `.+,${OU}`, `^ou=a.*,${OU}$`])
        expect(translated(`access to dn.regex="${pattern}" attrs=cn by users =c`).rules, pattern).to.deep.equal([]);
    });

    it('a slapd what that is not an entry here, or is the server itself, is left out', () => {
      const text =
        'access to dn.base="" by * read\naccess to dn.base="cn=Subschema" by * read\naccess to attrs=cn by * =c';
      expect(exact(text)).to.deep.equal(['{who:{},to:{attributes:[cn]},allow:[compare]}']);
      const { remarks } = translated('access to attrs=nothingKnown,cn by * =c');
      expect(remarks).to.deep.equal(["1 left: attribute 'nothingKnown' is not in the schema"]);
    });
  });

  describe("slapd's first matching line decides", () => {
    const read = (who: string, more = '') => `{who:${who},to:{${more}attributes:[cn]},allow:[read,search,compare]}`;

    it('the first matching slapd who clause decides', () => {
      expect(exact('access to attrs=cn by anonymous none by * read')).to.deep.equal([read('{users:true}')]);
      expect(exact('access to attrs=cn by self none by users read')).to.deep.equal([
        read('{users:true,not:{self:true}}'),
      ]);
      expect(exact(`access to attrs=cn by self none by dn="cn=a,${SUFFIX}" none by users read`)).to.deep.equal([
        read(`{users:true,not:[{self:true},{dn:cn=a,${SUFFIX}}]}`),
      ]);
    });

    it('the first matching slapd line decides for an attribute before all attributes', () => {
      expect(exact('access to attrs=cn by self read by * none\naccess to * by users read')).to.deep.equal([
        read('{self:true}'),
        '{who:{users:true,not:{self:true}},to:{attributes:[cn]},deny:[read,search,compare]}',
        '{who:{users:true},allow:[view]}',
      ]);
    });

    it('the first matching slapd line decides for a subtree before all entries', () => {
      expect(
        exact(`access to dn.subtree="ou=a,${SUFFIX}" by dn="cn=b,${SUFFIX}" read\naccess to * by users read`),
      ).to.deep.equal([
        `{who:{dn:cn=b,${SUFFIX}},to:{subtree:ou=a,${SUFFIX}},allow:[view]}`,
        `{who:{users:true,not:{dn:cn=b,${SUFFIX}}},to:{subtree:ou=a,${SUFFIX}},deny:[view]}`,
        '{who:{users:true},allow:[view]}',
      ]);
    });

    it('the first matching slapd line decides for a filter before all entries', () => {
      expect(exact('access to filter=(sn=x) attrs=cn by * none\naccess to attrs=cn by * read')).to.deep.equal([
        read('{}', 'filter:(!(sn=x)),'),
      ]);
    });

    it('a slapd line that never applies is left out', () => {
      expect(exact('access to * by * none\naccess to * by users write')).to.deep.equal([]);
    });

    it('a slapd line that gives in one place what another gives everywhere is limited exactly', () => {
      const group = `cn=g,${SUFFIX}`;
      const { rules, remarks } = translated(
        `access to dn.subtree="ou=a,${SUFFIX}" attrs=cn by self read by group=${group} read\naccess to attrs=cn by users read`,
      );
      expect(rules).to.include(
        `{who:{users:true,not:[{self:true},{group:${group}}]},to:{subtree:ou=a,${SUFFIX},attributes:[cn]},deny:[read,search,compare]}`,
      );
      expect(remarks.filter((one) => one.includes('less'))).to.deep.equal([]);
    });

    it("slapd's 'break' passes on to later lines", () => {
      expect(
        exact(`access to attrs=cn by dn="cn=a,${SUFFIX}" break by * none\naccess to attrs=cn by * read`),
      ).to.deep.equal([read(`{dn:cn=a,${SUFFIX}}`)]);
      expect(exact('access to attrs=cn by * break\naccess to attrs=cn by * read')).to.deep.equal([read('{}')]);
      expect(exact('access to attrs=cn by users break'), 'to the end').to.deep.equal([]);
    });

    it("slapd's 'continue' passes on to the next clause", () => {
      expect(exact('access to attrs=cn by users none continue by * read')).to.deep.equal([read('{}')]);
      const { rules, remarks } = translated('access to attrs=cn by users =r continue by * +c');
      expect(rules).to.deep.equal(['{who:{},to:{attributes:[cn]},allow:[compare]}']);
      expect(remarks).to.deep.equal(["1 less: '* +c': what lines before it leave to be added to is not added"]);
    });

    it('lines after an unreadable slapd line grant nothing', () => {
      const { rules, remarks } = translated(
        'access to attrs=cn by users read\naccess what by users\naccess to * by * read',
      );
      expect(rules).to.deep.equal([read('{users:true}')]);
      expect(remarks.slice(0, 1)).to.deep.equal(["2 left: it cannot be read: it does not begin by 'to'"]);
    });
  });

  describe('slapd configuration files', () => {
    it('lines of several slapd databases apply to their suffixes, before lines of the frontend', () => {
      const text = [
        'access to attrs=cn by users =r',
        'database mdb',
        'suffix "o=a"',
        'access to attrs=cn by self =c',
        'database mdb',
        'suffix "ou=b,o=a"',
        'database monitor',
        'access to * by * write',
      ].join('\n');
      const { rules, remarks } = translated(text);
      expect(rules).to.have.members([
        '{who:{self:true},to:{subtree:o=a,attributes:[cn]},allow:[compare]}',
        '{who:{users:true},to:{subtree:ou=b,o=a,attributes:[cn]},allow:[read]}',
        '{who:{self:true},to:{subtree:ou=b,o=a,attributes:[cn]},deny:[compare]}',
      ]);
      expect(remarks).to.deep.equal(['8 said: this is about cn=config or cn=monitor, which are not for rules']);
    });

    it('a cn=config is read with folded lines, base64 and ordering numbers', () => {
      const second = Buffer.from('{1}to * by users read').toString('base64');
      const { rules, remarks, read } = translated(
        [
          'dn: olcDatabase={1}mdb,cn=config',
          'olcDatabase: {1}mdb',
          `olcSuffix: ${SUFFIX}`,
          `olcAccess:: ${second}`,
          '# not this',
          'olcAccess: {0}to attrs=cn by sel',
          ' f read by * none',
          '',
          'dn: olcDatabase={0}config,cn=config',
          'olcAccess: {0}to * by * manage',
        ].join('\n'),
      );
      expect(rules).to.deep.equal([
        '{who:{users:true},allow:[view]}',
        '{who:{self:true},to:{attributes:[cn]},allow:[read,search,compare]}',
        '{who:{users:true,not:{self:true}},to:{attributes:[cn]},deny:[read,search,compare]}',
      ]);
      expect(read).to.equal(2);
      expect(remarks.filter((one) => !one.includes('secrets'))).to.deep.equal([
        '10 said: this is about cn=config or cn=monitor, which are not for rules',
      ]);
    });

    it('invalid base64 in a cn=config is reported with its line', () => {
      const { remarks } = translated(
        `dn: olcDatabase={1}mdb,cn=config\nolcSuffix: ${SUFFIX}\nolcAccess:: to * by * read`,
      );
      expect(remarks.join()).to.include('3 left: character 3 of the text behind "::" is not base64');
    });

    it('line ends within values of a cn=config make no additional rules', () => {
      const value = Buffer.from('to dn.base="ou=a\n- name: x,o=b" attrs=cn by dn="cn=a\n- name: y,o=b" =c').toString(
        'base64',
      );
      const { yaml } = translate(`dn: olcDatabase={1}mdb,cn=config\nolcAccess:: ${value}\n`, schema);
      const { rules } = parseRules(yaml, schema);
      expect(
        rules?.rules.map(({ who }) => who.dn?.map(({ text }) => text)),
        yaml,
      ).to.deep.equal([[schema.parseDn('cn=a\n- name: y,o=b').text]]);
    });

    it('a file without access lines yields no rules', () => {
      expect(translate('loglevel stats\n', schema).translatedCount).to.equal(0);
      expect(translate('dn: o=a\nobjectClass: organization\no: a\n', schema).translatedCount).to.equal(0);
    });
  });

  describe('rules from aci values', () => {
    const VERSION = '(version 3.0; acl "it"; ';
    const OU = `ou=a,${SUFFIX}`;

    function aci(value: string, exactly = true) {
      const { rules, remarks } = translated(`dn: ${OU}\naci: ${value}\n`);
      const told = remarks.filter((one) => !/^\d+ secrets:/.test(one));
      if (exactly) expect(told).to.deep.equal([]);
      return { rules, told };
    }

    const of = (who: string, attributes = 'cn') =>
      `{who:${who},to:{subtree:${OU},attributes:[${attributes}]},allow:[compare]}`;

    const BIND: Readonly<Record<string, readonly string[]>> = {
      'userdn = "ldap:///anyone"': [of('{}')],
      'userdn = "ldap:///all"': [of('{users:true}')],
      'userdn = "ldap:///self"': [of('{self:true}')],
      'userdn = "ldap:///cn=a,o=x || ldap:///cn=b,o=x"': [of('{dn:cn=a,o=x}'), of('{dn:cn=b,o=x}')],
      'userdn = "ldap:///cn=a%20b,o=x"': [of('{dn:cn=a b,o=x}')],
      'userdn = "ldap:///o=x??sub?(objectclass=*)"': [of('{subtree:o=x}')],
      'userdn != "ldap:///cn=a,o=x"': [of('{not:{dn:cn=a,o=x}}')],
      'groupdn = "ldap:///cn=g,o=x"': [of('{group:cn=g,o=x}')],
      'userattr = "manager#USERDN"': [of('{attribute:manager}')],
      'ip = "10.1.*"': [of('{network:10.1.0.0/16}')],
      'ip = "10.1.*.*"': [of('{network:10.1.0.0/16}')],
      'ip = "10.1.2.3,10.2.0.0/16"': [of('{network:10.1.2.3}'), of('{network:10.2.0.0/16}')],
      'ssf >= "128"': [of('{strength:128}')],
      'ssf < "128"': [of('{not:{strength:128}}')],
      'authmethod = "simple"': [of('{mechanism:simple}')],
      'userdn = "ldap:///all" and ssf >= "56"': [of('{users:true,strength:56}')],
      'userdn = "ldap:///all" and (ip = "10.1.*" or ssf > "127")': [
        of('{users:true,network:10.1.0.0/16}'),
        of('{users:true,strength:128}'),
      ],
      'userdn = "ldap:///all" and not ip = "10.1.*"': [of('{users:true,not:{network:10.1.0.0/16}}')],
      'userdn = "ldap:///cn=a,o=x" or ssf >= "56" and ip = "10.1.*"': [
        of('{dn:cn=a,o=x,network:10.1.0.0/16}'),
        of('{network:10.1.0.0/16,strength:56}'),
      ],
    };
    for (const [bind, rules] of Object.entries(BIND))
      it(`aci bind rule '${bind}' is translated`, () => {
        expect(aci(`(targetattr="cn")${VERSION}allow (compare) ${bind};)`).rules).to.deep.equal(rules);
      });

    const LEFT = [
      'userdn = "ldap:///parent"',
      'userdn = "ldap:///uid=*,o=x"',
      'userdn = "ldap:///o=x??one?(objectclass=*)"',
      'userdn = "ldap:///o=x??sub?(cn=a)"',
      'roledn = "ldap:///cn=r,o=x"',
      'userattr = "manager#GROUPDN"',
      'userattr = "parent[0,1].manager#USERDN"',
      'dns = "*.example.com"',
      'timeofday > "0800"',
      'dayofweek = "mon"',
      'authmethod = "ssl"',
    ];
    for (const bind of LEFT)
      it(`aci bind rule '${bind}' allows nothing, and denies to all who may be meant`, () => {
        const allowed = aci(`(targetattr="cn")${VERSION}allow (compare) ${bind};)`, false);
        expect(allowed).to.deep.equal({ rules: [], told: [`2 left: no rule can say '${bind}'`] });
        const negated = aci(`(targetattr="cn")${VERSION}allow (compare) not (${bind});)`, false);
        expect(negated.rules.filter((rule) => /who:\{(?:users:true)?\}/.test(rule))).to.deep.equal([]);
        const { rules } = aci(`(targetattr="cn")${VERSION}deny (compare) ${bind};)`, false);
        expect(rules.join()).to.match(/^\{who:\{(?:users:true)?\},to:\{subtree:ou=a[^}]*\},deny:\[compare\]\}$/);
      });

    it('aci rights are translated', () => {
      const rights = (right: string, target = '(targetattr="*")') =>
        aci(`${target}${VERSION}allow (${right}) userdn="ldap:///all";)`).rules;
      const all = `{who:{users:true},to:{subtree:${OU}`;
      expect(rights('read')).to.deep.equal([`${all},attributes:[*,entry]},allow:[see,read]}`]);
      expect(rights('read,search,compare')).to.deep.equal([`${all},attributes:[*,entry]},allow:[view]}`]);
      expect(rights('read', '(targetattr="cn || sn")')).to.deep.equal([
        `${all},attributes:[cn,sn]},allow:[read]}`,
        `${all},filter:(|(cn=*)(sn=*)),attributes:[entry]},allow:[see]}`,
      ]);
      expect(rights('write', '(targetattr="cn")')).to.deep.equal([`${all},attributes:[cn]},allow:[write]}`]);
      expect(rights('add')).to.deep.equal([`${all},attributes:[children]},allow:[create]}`]);
      expect(rights('delete')).to.deep.equal([`${all},attributes:[entry]},allow:[remove]}`]);
      expect(rights('proxy')).to.deep.equal([`${all},attributes:[entry]},allow:[proxy]}`]);
      expect(rights('all')).to.deep.equal([
        `${all},attributes:[*,entry,children]},allow:[view,write,create,remove,rename]}`,
        `${all},attributes:[userPassword]},allow:[write]}`,
      ]);
    });

    it('aci targets are translated', () => {
      const of = (target: string) =>
        aci(`${target}${VERSION}allow (compare) userdn="ldap:///all";)`).rules.map(
          (rule) => /to:(.*),allow/.exec(rule)![1],
        );
      expect(of(`(target="ldap:///cn=b,${OU}")(targetattr="cn")`)).to.deep.equal([
        `{subtree:cn=b,${OU},attributes:[cn]}`,
      ]);
      expect(of('(target="ldap:///*")(targetattr="cn")')).to.deep.equal([`{subtree:${OU},attributes:[cn]}`]);
      expect(of('(targetscope="base")(targetattr="cn")')).to.deep.equal([`{base:${OU},attributes:[cn]}`]);
      expect(of('(targetscope="onelevel")(targetattr="cn")')).to.deep.equal([`{one:${OU},attributes:[cn]}`]);
      expect(of('(targetfilter="(sn=x)")(targetattr="cn")')).to.deep.equal([
        `{subtree:${OU},filter:(sn=x),attributes:[cn]}`,
      ]);
      expect(of('(targetfilter!="(sn=x)")(targetattr="cn")')).to.deep.equal([
        `{subtree:${OU},filter:(!(sn=x)),attributes:[cn]}`,
      ]);
      expect(of('(targetattr!="userPassword")')).to.deep.equal([`{subtree:${OU}}`]);
    });

    it('aci parts that rules cannot express are reported', () => {
      for (const target of [
        `(target="ldap:///uid=*,${OU}")`,
        '(target!="ldap:///cn=b,o=x")',
        '(targattrfilters="add=cn:(cn=a)")',
        '(targetcontrol="1.2.3")',
      ]) {
        const allowed = aci(`${target}(targetattr="cn")${VERSION}allow (compare) userdn="ldap:///all";)`, false);
        expect(allowed.rules, target).to.deep.equal([]);
        expect(allowed.told[0]).to.match(/^2 left: no rule can say/);
        const denied = aci(`${target}(targetattr="cn")${VERSION}deny (compare) userdn="ldap:///all";)`, false);
        expect(denied.rules).to.deep.equal([`{who:{users:true},to:{subtree:${OU},attributes:[cn]},deny:[compare]}`]);
      }
      expect(aci(`(targetattr="member")${VERSION}allow (selfwrite) userdn="ldap:///all";)`, false)).to.deep.equal({
        rules: [],
        told: ["2 left: no rule has the right 'selfwrite'"],
      });
    });

    it('an aci denial overrides grants, and a client that may read nothing of an entry does not see the entry', () => {
      const { rules } = aci(`(targetattr="*")${VERSION}deny (read) userdn="ldap:///self";)`);
      expect(rules).to.deep.equal([
        `{who:{self:true},to:{subtree:${OU},attributes:[*,authPassword,userPassword,entry]},deny:[see,read]}`,
      ]);
      const two = translated(
        [
          `dn: ${OU}`,
          `aci: (targetattr="cn || sn")${VERSION}allow (read) userdn="ldap:///all";)`,
          `aci: (targetattr="cn")${VERSION}deny (read) userdn="ldap:///self";)`,
        ].join('\n'),
      ).rules;
      expect(two).to.include(`{who:{users:true},to:{subtree:${OU},filter:(sn=*),attributes:[entry]},allow:[see]}`);
    });

    it('an unreadable aci with a denial denies everything', () => {
      const { rules, told } = aci(`(targetattr="cn")${VERSION}deny (compare) nobody;)`, false);
      expect(told).to.deep.equal([
        '2 left: it cannot be read: its bind rule is none; since it denies something, all is denied there',
      ]);
      expect(rules).to.have.lengthOf(1);
      expect(rules[0]).to.match(/^\{who:\{\},to:\{subtree:ou=a.*deny:\[view,write,create,remove/);
      expect(aci('(targetattr="cn") allow', false)).to.deep.equal({
        rules: [],
        told: ['2 left: it cannot be read: there is no \'(version 3.0; acl "name"; …)\' behind the targets'],
      });
    });
  });

  it('the rules on the documentation page are those of the translation', () => {
    const page = readFileSync(`${root}docs/from-slapd-acls.md`, 'utf8');
    const fences = [...page.matchAll(/^```(conf|ldif|yaml|text)\n([\s\S]*?)^```/gm)];
    const examples = fences.filter(([, language]) => language === 'conf' || language === 'ldif');
    expect(examples).to.have.lengthOf(2);
    for (const example of examples) {
      const [yaml, told] = fences.slice(fences.indexOf(example) + 1);
      const { yaml: made, remarks } = translate(example[2]!, schema);
      expect(made.replace(/^(?:#.*\n)+\n/, '')).to.equal(yaml![2]);
      expect(remarks.map(({ line, text }) => `line ${line}: ${text}\n`).join('')).to.equal(told![2]);
    }
  });
});
