import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Attribute, Change, Client } from 'ldapts';
import { ADA, ADMIN, PASSWORD, PEOPLE, rowanDoes, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { makeCertificate, needs } from '../require.js';

/** Hashes of "secret", as OpenLDAP's slappasswd makes them. */
const SHA = '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=';
const ARGON2 =
  '{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$u0zWNC6XV9xYMfbT/g5J7w$8w/cM0zbskhjhebvjpPy2H+xTmbltsfguDYSX0lO6g8';
const PASSWORD_MODIFY = '1.3.6.1.4.1.4203.1.11.1';

const MAIL = `cn=mail,ou=services,${SUFFIX}`;
const dnOf = (uid: string): string => `uid=${uid},${PEOPLE}`;
const [BRAM, GRACE, HANA, NEW] = ['bram', 'grace', 'hana', 'new'].map(dnOf) as [string, string, string, string];

const password = (dn: string, value: string): string =>
  `dn: ${dn}\nchangetype: modify\nreplace: userPassword\nuserPassword: ${value}\n-\n\n`;

/** The recipe of docs/access.md: its settings and its rules. */
function recipe(): { settings: string; rules: string } {
  const page = readFileSync(fileURLToPath(new URL('../../../docs/access.md', import.meta.url)), 'utf8');
  const section = /^### Dovecot in a closed directory\n([\s\S]*?)^##/m.exec(page)![1]!;
  const settings = [...section.replace(/^```[\s\S]*?^```/gm, '').matchAll(/^ {4}(.*\n)/gm)]
    .map((match) => match[1])
    .join('');
  return { settings, rules: /^```yaml\n([\s\S]*?)^```/m.exec(section)![1]! };
}

/** Hashes as Dovecot reads them by the recipe, verified by Dovecot's own program. */
describe('clients: Dovecot', () => {
  const sandbox = new Sandbox();
  const clients: Client[] = [];
  let url: string;

  before(async function () {
    needs(this, 'doveadm', 'openssl');
    await sandbox.initSample();
    const mail = `objectClass: applicationProcess\nobjectClass: simpleSecurityObject\ncn: mail\nuserPassword: ${PASSWORD}`;
    const hashes = password(ADA, SHA) + password(BRAM, ARGON2) + password(HANA, 'secret');
    const input = `dn: ${MAIL}\nchangetype: add\n${mail}\n\n${hashes}`;
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input });
    const { settings, rules } = recipe();
    writeFileSync(sandbox.path('rules.yaml'), rules);
    writeFileSync(sandbox.path('rowan.yaml'), settings);
    await rowanDoes(['access', 'apply', sandbox.path('rules.yaml'), '--data', sandbox.data]);
    const { cert, key } = makeCertificate(sandbox.folder);
    const tls = ['--listen', 'ldaps://127.0.0.1:0', '--tls-cert', cert, '--tls-key', key];
    ({ url } = await sandbox.serve(['--config', sandbox.path('rowan.yaml'), ...tls]));
  });
  afterEach(() => Promise.all(clients.splice(0).map((client) => client.unbind())));
  after(() => sandbox.remove());

  async function bound(dn: string, clear = PASSWORD): Promise<Client> {
    const client = new Client({ url, tlsOptions: { rejectUnauthorized: false } });
    clients.push(client);
    await client.bind(dn, clear);
    return client;
  }

  async function hashOf(dn: string, mail?: Client): Promise<string> {
    const found = await (mail ?? (await bound(MAIL))).search(dn, { scope: 'base', attributes: ['userPassword'] });
    return String(found.searchEntries[0]!.userPassword);
  }

  /** Whether Dovecot verifies the password by the hash; what it says if it does not. */
  async function verifies(hash: string, clear: string): Promise<true | string> {
    const { code, stdout, stderr } = await run('doveadm', ['pw', '-t', hash, '-p', clear]);
    return code === 0 && stdout.includes('(verified)') ? true : stderr.trim();
  }

  async function expectKnown(dn: string): Promise<void> {
    const hash = await hashOf(dn);
    expect(hash).to.match(/^\{SSHA512\}/);
    expect(await verifies(hash, 'secret')).to.equal(true);
    expect(await verifies(hash, 'wrong')).to.match(/mismatch/);
  }

  it('knows what an add stores', async () => {
    const entry = { objectClass: 'inetOrgPerson', uid: 'new', cn: 'New', sn: 'New', userPassword: 'secret' };
    await (await bound(ADMIN)).add(NEW, entry);
    await expectKnown(NEW);
  });

  it('knows what a modify and password modify store', async () => {
    const admin = await bound(ADMIN);
    const modification = new Attribute({ type: 'userPassword', values: ['given'] });
    await admin.modify(GRACE, new Change({ operation: 'replace', modification }));
    const user = await bound(GRACE, 'given');
    const [oldPassword, newPassword] = ['given', 'secret'].map((clear) => Buffer.from(clear));
    await user.exop(PASSWORD_MODIFY, encodePasswordModify({ userIdentity: undefined, oldPassword, newPassword }));
    await expectKnown(GRACE);
  });

  it('knows what an import stores of a password in the clear', () => expectKnown(HANA));

  it('knows what the bind of its owner makes of a weaker hash', async () => {
    await bound(ADA, 'secret');
    const mail = await bound(MAIL);
    while ((await hashOf(ADA, mail)) === SHA);
    await expectKnown(ADA);
  });

  it('does not know {ARGON2}, whose owner binds', async () => {
    await bound(BRAM, 'secret');
    expect(await hashOf(BRAM)).to.equal(ARGON2);
    expect(await verifies(ARGON2, 'secret')).to.match(/Unknown scheme/);
  });
});
