import { expect } from 'chai';
import ldapjs from 'ldapjs';
import { Attribute, Change, Client } from 'ldapts';
import type { SuiteDirectory } from './directory.js';

/** The same through the libraries that people use. */
export function clientsSuite(directory: SuiteDirectory): void {
  describe('clients', () => {
    it('ldapts', async () => {
      const { adminDn, adminPassword, url } = directory.served;
      const client = new Client({ url });
      const dn = `uid=ldapts,${directory.people}`;
      await client.bind(adminDn, adminPassword);
      await client.add(dn, { objectClass: 'inetOrgPerson', uid: 'ldapts', cn: 'Ldapts', sn: 'Client' });
      await client.modify(
        dn,
        new Change({ operation: 'replace', modification: new Attribute({ type: 'sn', values: ['Changed'] }) }),
      );
      const options = { scope: 'sub', filter: '(&(objectClass=person)(uid=ldapts))', paged: { pageSize: 10 } } as const;
      const { searchEntries } = await client.search(directory.suffix, options);
      expect(searchEntries).to.have.length(1);
      expect(searchEntries[0]).to.include({ dn, sn: 'Changed', cn: 'Ldapts' });
      expect(await client.compare(dn, 'sn', 'changed')).to.equal(true);
      await client.modifyDN(dn, 'uid=ldapts2');
      await client.del(`uid=ldapts2,${directory.people}`);
      await client.unbind();
    });

    it('ldapjs', async () => {
      const { adminDn, adminPassword, url } = directory.served;
      const client = ldapjs.createClient({ url: [url] });
      const done = (start: (callback: (error: Error | null) => void) => void): Promise<void> =>
        new Promise((resolve, reject) => start((error) => (error ? reject(error) : resolve())));
      const dn = `uid=ldapjs,${directory.people}`;
      await done((callback) => client.bind(adminDn, adminPassword, callback));
      await done((callback) =>
        client.add(dn, { objectClass: 'inetOrgPerson', uid: 'ldapjs', cn: 'Ldapjs', sn: 'Client' }, callback),
      );
      const found = await new Promise<unknown[]>((resolve, reject) => {
        client.search(directory.suffix, { scope: 'sub', filter: '(uid=ldapjs)' }, (error, result) => {
          if (error) return reject(error);
          const entries: unknown[] = [];
          result.on('searchEntry', (entry) => entries.push(entry.pojo.objectName));
          result.on('error', reject);
          result.on('end', () => resolve(entries));
        });
      });
      expect(found).to.deep.equal([dn]);
      await done((callback) => client.del(dn, callback));
      await done((callback) => client.unbind(callback));
    });
  });
}
