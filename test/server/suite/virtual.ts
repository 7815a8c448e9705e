import { expect } from 'chai';
import type { RawClient } from '../raw-client.js';
import { names, type SuiteDirectory, texts } from './directory.js';

/** Root DSE, cn=Subschema and cn=Monitor. */
export function virtualSuite(directory: SuiteDirectory): void {
  describe('entries of the server itself', () => {
    let stranger: RawClient;
    before(async () => {
      stranger = await directory.connect();
    });

    it('the root DSE tells anybody what the server can do', async () => {
      const dse = await stranger.search('', { attributes: ['*', '+'] });
      expect(texts(dse, 'supportedLDAPVersion')).to.deep.equal(['3']);
      expect(texts(dse, 'namingContexts')).to.deep.equal([directory.suffix]);
      expect(texts(dse, 'subschemaSubentry')).to.deep.equal(['cn=Subschema']);
      expect(texts(dse, 'supportedControl')).to.include('1.2.840.113556.1.4.319');
      expect(texts(dse, 'supportedExtension')).to.include('1.3.6.1.4.1.4203.1.11.3');
      expect(texts(dse, 'supportedFeatures')).to.include('1.3.6.1.4.1.4203.1.5.1');
      expect(texts(dse, 'vendorVersion')![0]).to.match(/^\d/);
    });

    it('the root DSE returns user attributes alone unless asked', async () => {
      expect(names(await stranger.search(''))).to.deep.equal(['objectClass']);
      expect(names(await stranger.search('', { attributes: ['namingcontexts'] }))).to.deep.equal(['namingContexts']);
    });

    it('filters apply to it', async () => {
      const filter = { type: 'equal', attribute: 'supportedLDAPVersion', value: Buffer.from('2') } as const;
      expect((await stranger.search('', { filter })).entries).to.deep.equal([]);
    });

    it('cn=Subschema holds the schema', async () => {
      const subschema = await stranger.search('CN=subschema', {
        attributes: ['attributeTypes', 'objectClasses', 'ldapSyntaxes', 'matchingRules'],
      });
      expect(texts(subschema, 'attributeTypes')!.some((d) => /^\( 2\.5\.4\.3 NAME .*'cn'/.test(d))).to.equal(true);
      expect(texts(subschema, 'objectClasses')!.some((d) => d.includes("'inetOrgPerson'"))).to.equal(true);
      expect(names(subschema)).to.have.members(['attributeTypes', 'objectClasses', 'ldapSyntaxes', 'matchingRules']);
    });

    it('cn=Monitor counts, for whoever has bound', async () => {
      expect((await stranger.search('cn=Monitor')).code).to.equal(50);
      const figures = texts(await directory.admin.search('cn=Monitor'), 'description')!;
      for (const figure of ['version', 'uptimeSeconds', 'connectionsCurrent', 'operations.search']) {
        expect(
          figures.some((f) => f.startsWith(`${figure}: `)),
          figure,
        ).to.equal(true);
      }
      const searches = Number(figures.find((f) => f.startsWith('operations.search: '))!.split(' ')[1]);
      const again = texts(await directory.admin.search('cn=Monitor'), 'description')!;
      expect(again).to.include(`operations.search: ${searches + 1}`);
    });

    it('compares with the values of these entries', async function () {
      directory.needs(this, 'strictParser');
      const compare = async (client: RawClient, dn: string, attribute: string, value: string): Promise<number> =>
        (await client.request({ op: 'compare', dn, attribute, value: Buffer.from(value) })).code;
      const { admin } = directory;
      expect(await compare(stranger, '', 'supportedLDAPVersion', '3')).to.equal(6);
      expect(await compare(stranger, '', 'namingContexts', directory.suffix.toUpperCase())).to.equal(6);
      expect(await compare(stranger, '', 'vendorName', 'nobody')).to.equal(5);
      expect(await compare(stranger, '', 'description', 'x')).to.equal(16);
      expect(await compare(stranger, '', 'nosuch', 'x')).to.equal(17);
      expect(await compare(stranger, 'CN=Subschema', 'objectClass', 'subschema')).to.equal(6);
      expect(await compare(stranger, 'cn=x,cn=Subschema', 'cn', 'x')).to.equal(32);
      expect(await compare(stranger, 'cn=Monitor', 'cn', 'Monitor')).to.equal(50);
      expect(await compare(admin, 'cn=Monitor', 'cn', 'monitor')).to.equal(6);
      expect(await compare(admin, 'cn=Jobs,cn=Monitor', 'cn', 'other')).to.equal(5);
      expect(await compare(admin, 'cn=none,cn=Monitor', 'cn', 'none')).to.equal(32);
      expect(await compare(admin, 'cn=Monitor', 'userPassword', 'x')).to.equal(50);
    });

    it('nobody changes these entries, or puts others below them', async function () {
      directory.needs(this, 'strictParser');
      const { admin, people } = directory;
      const codes = [];
      for (const dn of ['', 'cn=Subschema', 'cn=Monitor', 'cn=Jobs,cn=Monitor', 'cn=none,cn=Monitor']) {
        const rename = { op: 'modifyDN', dn, newRdn: 'cn=x', deleteOldRdn: false, newSuperior: undefined } as const;
        const attribute = { type: 'description', values: [Buffer.from('x')] };
        codes.push(
          (await admin.request({ op: 'delete', dn })).code,
          (await admin.request(rename)).code,
          (await admin.request({ op: 'modify', dn, changes: [{ operation: 'add', attribute }] })).code,
          (await admin.request({ op: 'add', dn, attributes: [attribute] })).code,
        );
      }
      expect(new Set(codes)).to.deep.equal(new Set([53]));
      const move = {
        op: 'modifyDN',
        dn: people,
        newRdn: 'ou=x',
        deleteOldRdn: false,
        newSuperior: 'cn=Monitor',
      } as const;
      expect((await admin.request(move)).code).to.equal(53);
    });
  });
}
