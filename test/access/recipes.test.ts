import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Attribute, Change, Client, type SearchResult } from 'ldapts';
import { ADA, PASSWORD, PEOPLE, rowan, rowanDoes, Sandbox, SUFFIX } from '../cli/rowan.js';
import { makeCertificate, needs } from '../require.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/access.md'), 'utf8');

interface Recipe {
  readonly title: string;
  readonly rules: string;
  readonly table: string;
}

/** The recipes that the page begins with, each with its rules and its table of expectations. */
function recipes(): Recipe[] {
  const section = /^## Six recipes\n([\s\S]*?)^## /m.exec(page)![1]!;
  return section
    .split(/^### /m)
    .slice(1)
    .map((text) => {
      const fences = [...text.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map((match) => match[1]!);
      expect(fences).to.have.lengthOf(2);
      return { title: text.split('\n', 1)[0]!, rules: fences[0]!, table: fences[1]! };
    });
}

const HANA = `uid=hana,${PEOPLE}`;
const GRACE = `uid=grace,${PEOPLE}`;
const BRAM = `uid=bram,${PEOPLE}`;
const KWAME = `uid=kwame,${PEOPLE}`;
const WIKI = `cn=wiki,ou=services,${SUFFIX}`;
const MAIL = `cn=mail,ou=services,${SUFFIX}`;
const SALES = `cn=sales,ou=groups,${SUFFIX}`;
const ENGINEERING = `cn=engineering,ou=groups,${SUFFIX}`;

const password = (dn: string, change = '') =>
  `dn: ${dn}\nchangetype: modify\n${change}replace: userPassword\nuserPassword: ${PASSWORD}\n-\n\n`;

/** What recipes name beside the sample, and passwords for those who bind. */
const MORE = `dn: cn=helpdesk,ou=groups,${SUFFIX}
changetype: add
objectClass: groupOfNames
cn: helpdesk
member: ${GRACE}

dn: ${MAIL}
changetype: add
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: mail
userPassword: ${PASSWORD}

${password(WIKI, 'add: objectClass\nobjectClass: simpleSecurityObject\n-\n')}${[ADA, BRAM, GRACE, HANA].map((dn) => password(dn)).join('')}`;

describe('access recipes', () => {
  const sandbox = new Sandbox();
  const clients: Client[] = [];
  let urls: readonly string[];

  before(async function () {
    needs(this, 'openssl');
    await sandbox.initSample();
    writeFileSync(sandbox.path('more.ldif'), MORE);
    await rowanDoes(['import', '--data', sandbox.data, sandbox.path('more.ldif')]);
    const { cert, key } = makeCertificate(sandbox.folder);
    const listen = ['--listen', 'ldap://127.0.0.1:0', '--listen', 'ldaps://127.0.0.1:0'];
    ({ urls } = await sandbox.serve([...listen, '--tls-cert', cert, '--tls-key', key]));
  });
  afterEach(() => Promise.all(clients.splice(0).map((client) => client.unbind())));
  after(() => sandbox.remove());

  async function bound(dn: string, way: 'ldap' | 'ldaps' = 'ldaps'): Promise<Client> {
    const url = urls.find((one) => one.startsWith(`${way}:`))!;
    const client = new Client({
      url,
      timeout: 10_000,
      ...(way === 'ldaps' && { tlsOptions: { rejectUnauthorized: false } }),
    });
    clients.push(client);
    await client.bind(dn, PASSWORD);
    return client;
  }

  async function change(
    client: Client,
    operation: 'add' | 'delete' | 'replace',
    dn: string,
    type: string,
    value: string,
  ) {
    return codeOf(client.modify(dn, new Change({ operation, modification: new Attribute({ type, values: [value] }) })));
  }

  /** Attributes of what is found, by DN; or the result code. */
  async function found(client: Client, base: string, attributes: string[], filter = '(objectClass=*)') {
    const searched = client.search(base, { scope: 'sub', filter, attributes }).then(
      ({ searchEntries }: SearchResult) =>
        Object.fromEntries(
          searchEntries.map(({ dn, ...values }) => [
            dn,
            Object.keys(values).filter((name) => (values[name] as string | string[]).length > 0),
          ]),
        ),
      (error: { code: number }) => error.code,
    );
    return searched;
  }

  /** What each does, as LDAP clients see it. */
  const SEEN: Readonly<Record<string, () => Promise<void>>> = {
    'A service account that reads': async () => {
      const wiki = await bound(WIKI);
      const people = await found(wiki, PEOPLE, ['cn', 'mail', 'telephoneNumber'], '(uid=a*)');
      expect(people).to.deep.equal({ [ADA]: ['cn', 'mail'] });
      expect(await found(wiki, PEOPLE, ['cn'], '(telephoneNumber=*)')).to.deep.equal({});
      expect(await found(wiki, `ou=groups,${SUFFIX}`, ['cn'])).to.equal(32);
      expect(await change(wiki, 'replace', ADA, 'mail', 'wiki@example.com')).to.equal(50);
      expect(await found(await bound(WIKI, 'ldap'), PEOPLE, ['cn'])).to.equal(50);
      const ada = await bound(ADA, 'ldap');
      expect(await found(ada, BRAM, ['cn', 'telephoneNumber'])).to.deep.equal({ [BRAM]: ['cn', 'telephoneNumber'] });
    },
    Helpdesk: async () => {
      const grace = await bound(GRACE);
      expect(await change(grace, 'replace', HANA, 'userPassword', PASSWORD)).to.equal(0);
      expect(await change(grace, 'replace', KWAME, 'userPassword', PASSWORD)).to.equal(50);
      expect(await change(grace, 'replace', ADA, 'userPassword', PASSWORD)).to.equal(50);
      expect(await change(grace, 'replace', HANA, 'telephoneNumber', '1')).to.equal(50);
      expect(await change(await bound(GRACE, 'ldap'), 'replace', HANA, 'userPassword', PASSWORD)).to.equal(50);
      expect(await change(await bound(HANA), 'replace', GRACE, 'userPassword', PASSWORD)).to.equal(50);
      expect(await change(await bound(ADA), 'replace', ADA, 'userPassword', PASSWORD)).to.equal(0);
    },
    'Self-service': async () => {
      const ada = await bound(ADA, 'ldap');
      expect(await change(ada, 'replace', ADA, 'mobile', '+49 1')).to.equal(0);
      expect(await change(ada, 'replace', ADA, 'employeeNumber', '1')).to.equal(50);
      expect(await change(ada, 'replace', BRAM, 'mobile', '+49 1')).to.equal(50);
    },
    'One attribute hidden from all but a few': async () => {
      const numbers = async (asker: string, of: string) =>
        found(await bound(asker), of, ['cn', 'employeeNumber'], '(cn=*)');
      for (const asker of [GRACE, WIKI, ADA])
        expect(await numbers(asker, ADA), asker).to.deep.equal({ [ADA]: ['cn', 'employeeNumber'] });
      expect(await numbers(BRAM, ADA)).to.deep.equal({ [ADA]: ['cn'] });
    },
    'Groups in the hands of their owners': async () => {
      const grace = await bound(GRACE, 'ldap');
      expect(await change(grace, 'add', SALES, 'member', ADA)).to.equal(0);
      expect(await change(grace, 'delete', SALES, 'member', ADA)).to.equal(0);
      expect(await change(grace, 'replace', SALES, 'owner', ADA)).to.equal(50);
      expect(await change(grace, 'add', ENGINEERING, 'member', ADA)).to.equal(50);
      expect(await change(await bound(BRAM, 'ldap'), 'add', ENGINEERING, 'member', ADA)).to.equal(0);
    },
    'Dovecot in a closed directory': async () => {
      const ada = await bound(ADA, 'ldap');
      expect(await found(ada, ADA, ['cn'])).to.deep.equal({ [ADA]: ['cn'] });
      expect(await found(ada, BRAM, ['cn'])).to.equal(32);
      expect(await found(ada, SUFFIX, ['cn'])).to.equal(32);
      const inClear = await bound(MAIL, 'ldap');
      expect(await found(inClear, SUFFIX, ['mail', 'userPassword'], '(uid=ada)')).to.deep.equal({ [ADA]: ['mail'] });
      const mail = await bound(MAIL);
      expect(await found(mail, SUFFIX, ['mail', 'userPassword'], '(uid=ada)')).to.deep.equal({
        [ADA]: ['mail', 'userPassword'],
      });
      expect(await found(mail, SUFFIX, ['cn'], '(userPassword=*)')).to.deep.equal({});
    },
  };

  it('the page of access recipes has six recipes, all of which are tested', () => {
    expect(recipes().map(({ title }) => title)).to.deep.equal(Object.keys(SEEN));
  });

  for (const { title, rules, table } of recipes())
    it(`the rules of the recipe '${title}' are accepted as written and do what the page says`, async () => {
      const files = { rules, table, none: 'rules: []\n' };
      for (const [name, text] of Object.entries(files)) writeFileSync(sandbox.path(`${name}.yaml`), text);
      const test = ['access', 'test', sandbox.path('table.yaml'), '--data', sandbox.data];
      const applied = await rowan(['access', 'apply', sandbox.path('rules.yaml'), '--data', sandbox.data]);
      expect([applied.code, applied.stderr]).to.deep.equal([0, '']);
      expect(await rowanDoes(test)).to.match(/^\d+ expectations, 0 not as expected\n$/);
      expect((await rowan([...test, '--rules', sandbox.path('none.yaml')])).code).to.equal(1);
      await SEEN[title]!();
    });
});

async function codeOf(done: Promise<unknown>): Promise<number> {
  try {
    await done;
    return 0;
  } catch (error) {
    return (error as { code: number }).code;
  }
}
