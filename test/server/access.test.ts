import { expect } from 'chai';
import { PEOPLE, personDn, type Running, start } from './directory.js';
import { RawClient } from './raw-client.js';

const PERSON = { op: 'compare', dn: personDn('p0'), attribute: 'uid', value: Buffer.from('p0') } as const;
const EVERYBODY = { scope: 'sub', attributes: ['*', '+', 'userPassword'] } as const;

describe('server: who may what', () => {
  let running: Running;
  let nobody: RawClient;
  afterEach(async () => {
    nobody.close();
    await running.stop();
  });

  async function begin(settings = {}): Promise<void> {
    running = await start(settings, 3);
    nobody = await RawClient.open(running.port);
  }

  /** Everything but reading. */
  async function expectNoMore(): Promise<void> {
    const changes = [{ operation: 'add', attribute: { type: 'description', values: [Buffer.from('x')] } }] as const;
    const rename = { newRdn: 'uid=x', deleteOldRdn: true, newSuperior: undefined } as const;
    for (const request of [
      { op: 'add', dn: personDn('x'), attributes: [] },
      { op: 'modify', dn: personDn('p0'), changes },
      { op: 'modifyDN', dn: personDn('p0'), ...rename },
      { op: 'delete', dn: personDn('p0') },
      { ...PERSON, attribute: 'userPassword', value: Buffer.from('secret-0') },
    ] as const) {
      expect((await nobody.request(request)).code, request.op).to.equal(50);
    }
    expect((await nobody.search('cn=Monitor')).code).to.equal(50);
    expect((await nobody.search('')).code).to.equal(0);
  }

  it('without a bind: nothing but the root DSE, unless the configuration says otherwise', async () => {
    await begin();
    expect((await nobody.search(PEOPLE, EVERYBODY)).code).to.equal(50);
    expect((await nobody.request(PERSON)).code).to.equal(50);
    await expectNoMore();
  });

  it('access.anonymous: read lets anybody read, but no password and no more', async () => {
    await begin({ 'access.anonymous': 'read' });
    const { code, entries } = await nobody.search(PEOPLE, EVERYBODY);
    expect([code, entries.length]).to.deep.equal([0, 4]);
    for (const { attributes } of entries) expect([...attributes.keys()]).not.to.include('userPassword');
    expect((await nobody.request(PERSON)).code).to.equal(6);
    await expectNoMore();
  });

  it('passwords.requireTls holds for a compare, too', async () => {
    await begin({ 'access.anonymous': 'read', 'passwords.requireTls': true });
    for (const attribute of ['userPassword', 'userPassword;x-hid', 'authPassword']) {
      const secret = { ...PERSON, attribute, value: Buffer.from('secret-0') };
      expect((await nobody.request(secret)).code, attribute).to.equal(13);
    }
    expect((await nobody.request(PERSON)).code).to.equal(6);
  });
});
