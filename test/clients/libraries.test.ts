import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import ldapjs from 'ldapjs';
import { Attribute, Change, Client, InvalidCredentialsError, NoSuchObjectError } from 'ldapts';
import { ADA, ADMIN, PASSWORD, PEOPLE, type RunningServer, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';

const LDAP3_SCRIPT = fileURLToPath(new URL('../../../test/clients/ldap3-session.py', import.meta.url));

/** Client libraries against a running server: bind, search, page, add, modify, rename, delete, compare. */
describe('clients: libraries', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async () => {
    await sandbox.initSample();
    server = await sandbox.serve();
  });

  after(() => sandbox.remove());

  it('python ldap3', async function () {
    needs(this, 'python3-ldap3');
    const ended = await run('/usr/bin/python3', [LDAP3_SCRIPT, server.url, ADMIN, PASSWORD, SUFFIX]);
    expect(ended.stderr).to.equal('');
    expect(ended.stdout.trim().split('\n')).to.deep.equal([
      'schema person',
      'whoami dn:cn=admin,dc=example,dc=com',
      'paged 12',
      'added 0',
      'modified Lindh',
      'compared True',
      'renamed uid=m.lindh,ou=people,dc=example,dc=com',
      'password uid=m.lindh,ou=people,dc=example,dc=com',
      'deleted 32',
      'wrong password 49',
    ]);
  });

  describe('ldapts', () => {
    let client: Client;

    before(async () => {
      client = new Client({ url: server.url });
      await client.bind(ADMIN, PASSWORD);
    });

    after(() => client.unbind());

    it('searches, with pages', async () => {
      const { searchEntries } = await client.search(PEOPLE, {
        scope: 'sub',
        filter: '(l=Hamburg)',
        attributes: ['uid'],
        paged: { pageSize: 2 },
      });
      expect(searchEntries.map((entry) => entry.uid).sort()).to.deep.equal([
        'ada',
        'farid',
        'jolanta',
        'kwame',
        'lucia',
      ]);
    });

    it('returns several values, options and text beyond ASCII', async () => {
      const { searchEntries } = await client.search(`uid=hana,${PEOPLE}`, { scope: 'base' });
      expect(searchEntries[0]).to.include({ sn: 'Sato', 'sn;lang-ja': '佐藤' });
      expect(searchEntries[0]).not.to.have.property('userPassword');
    });

    it('adds, modifies, compares, renames and deletes', async () => {
      const dn = `uid=otto,${PEOPLE}`;
      await client.add(dn, {
        objectClass: ['inetOrgPerson'],
        uid: 'otto',
        cn: 'Otto Berg',
        sn: 'Berg',
        userPassword: 'clear text',
      });
      await client.modify(dn, [
        new Change({ operation: 'add', modification: new Attribute({ type: 'mail', values: ['otto@example.com'] }) }),
      ]);
      expect(await client.compare(dn, 'mail', 'OTTO@example.com')).to.equal(true);
      await client.modifyDN(dn, `uid=otto.berg,${PEOPLE}`);
      const own = new Client({ url: server.url });
      await own.bind(`uid=otto.berg,${PEOPLE}`, 'clear text');
      await own.unbind();
      await client.del(`uid=otto.berg,${PEOPLE}`);
      await client.search(`uid=otto.berg,${PEOPLE}`, { scope: 'base' }).then(
        () => expect.fail('the entry is still there'),
        (error) => expect(error).to.be.instanceOf(NoSuchObjectError),
      );
    });

    it('is refused with a wrong password', async () => {
      const stranger = new Client({ url: server.url });
      const refusal: unknown = await stranger.bind(ADA, 'wrong').then(
        () => undefined,
        (error: unknown) => error,
      );
      await stranger.unbind();
      expect(refusal).to.be.instanceOf(InvalidCredentialsError);
    });
  });

  describe('ldapjs', () => {
    let client: ldapjs.Client;

    before(async () => {
      client = ldapjs.createClient({ url: server.url });
      await settle((done) => client.bind(ADMIN, PASSWORD, done));
    });

    after((done) => client.unbind(done));

    it('searches', async () => {
      const names = await searchNames(client, {
        scope: 'sub',
        filter: '(&(objectClass=groupOfNames)(member=uid=hana,ou=people,dc=example,dc=com))',
      });
      expect(names).to.deep.equal(['cn=sales,ou=groups,dc=example,dc=com']);
    });

    it('adds, modifies, compares, renames and deletes', async () => {
      const dn = `uid=piet,${PEOPLE}`;
      await settle((done) =>
        client.add(dn, { objectClass: 'inetOrgPerson', uid: 'piet', cn: 'Piet', sn: 'Piet' }, done),
      );
      const change = new ldapjs.Change({
        operation: 'replace',
        modification: new ldapjs.Attribute({ type: 'sn', values: ['Smit'] }),
      });
      await settle((done) => client.modify(dn, change, done));
      const equal = await new Promise((resolve, reject) => {
        client.compare(dn, 'sn', 'smit', (error, matched) => (error ? reject(error) : resolve(matched)));
      });
      expect(equal).to.equal(true);
      await settle((done) => client.modifyDN(dn, `uid=piet.smit,${PEOPLE}`, done));
      expect(await searchNames(client, { scope: 'one', filter: '(sn=Smit)' }, PEOPLE)).to.deep.equal([
        `uid=piet.smit,${PEOPLE}`,
      ]);
      await settle((done) => client.del(`uid=piet.smit,${PEOPLE}`, done));
      expect(await searchNames(client, { scope: 'one', filter: '(sn=Smit)' }, PEOPLE)).to.deep.equal([]);
    });
  });
});

function settle(start: (done: (error: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => start((error) => (error ? reject(error) : resolve())));
}

function searchNames(client: ldapjs.Client, options: ldapjs.SearchOptions, base = SUFFIX): Promise<string[]> {
  return new Promise((resolve, reject) => {
    client.search(base, options, (error, result) => {
      if (error) return reject(error);
      const names: string[] = [];
      result.on('searchEntry', (entry) => names.push(String(entry.objectName)));
      result.on('error', reject);
      result.on('end', () => resolve(names));
    });
  });
}
