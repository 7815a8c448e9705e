import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import type { Control, SearchRequest } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { ENGINES, openStore } from '../partition/fixture.js';
import { str, tlv } from '../protocol/bytes.js';
import { ADMIN, attributes, emptyPartition, fill, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';

const POLICY = `cn=policy,${PEOPLE}`;
const REFERRAL = `ou=away,${SUFFIX}`;
const GROUPS = ['one', 'two'].map((cn) => `cn=${cn},${SUFFIX}`);

const RULES = `rules:\n  - { name: people, who: { users: true }, to: { subtree: "${PEOPLE}" }, allow: [view] }\n`;

const equal = (type: string, value: string): Buffer => tlv(0xa3, str(type), str(value));
const present = (type: string): Buffer => tlv(0x87, type);

/** The control, critical and not. */
function both(oid: string, value?: Buffer): Control[] {
  return [true, false].map((critical) => ({ oid, critical, value }));
}

for (const engine of ENGINES) {
  describe(`server: controls of searches (${engine})`, () => {
    let running: Running;
    let folder: string | undefined;
    let admin: RawClient;
    let user: RawClient;

    before(async () => {
      const { store, folder: dataFolder } = await openStore(engine);
      folder = dataFolder;
      const partition = await emptyPartition(store, RULES);
      await fill(partition, 3);
      running = await start({}, 0, partition);
      [admin, user] = [await RawClient.open(running.port), await RawClient.open(running.port)];
      await admin.bind(ADMIN.dn, ADMIN.password);
      await user.bind(personDn('p0'), 'secret-0');
      await add(POLICY, { objectClass: ['subentry', 'extensibleObject'], cn: 'policy', subtreeSpecification: '{}' });
      await add(REFERRAL, { objectClass: ['referral', 'extensibleObject'], ou: 'away', ref: 'ldap://other/ou=away' });
      for (const [n, dn] of GROUPS.entries())
        await add(dn, {
          objectClass: 'groupOfNames',
          cn: ['one', 'two'][n]!,
          member: [personDn('p0'), personDn('p1')],
        });
    });
    after(async () => {
      for (const client of [admin, user]) client.close();
      await running.stop();
      await running.partition.close();
      if (folder) rmSync(folder, { recursive: true, force: true });
    });

    async function add(dn: string, values: Readonly<Record<string, string | readonly string[]>>): Promise<void> {
      const manage = [{ oid: ControlOid.manageDsaIT, critical: true, value: undefined }];
      const answer = await admin.request({ op: 'add', dn, attributes: attributes(values) }, manage);
      expect(answer.code, answer.final.message).to.equal(0);
    }

    const dns = ({ code, entries }: Answer): string[] => {
      expect(code).to.equal(0);
      return entries.map(({ dn }) => dn).sort();
    };

    /** What all pages of two entries find. */
    async function paged(base: string, parts: Partial<SearchRequest>, control: Control): Promise<string[]> {
      const found: string[] = [];
      let cookie: Buffer = Buffer.alloc(0);
      do {
        const value = encodePagedResults({ size: 2, cookie });
        const answer = await admin.search(base, parts, [
          control,
          { oid: ControlOid.pagedResults, critical: true, value },
        ]);
        found.push(...dns(answer));
        cookie = decodePagedResults(answer.controls[0]!.value).cookie;
      } while (cookie.length > 0);
      return found.sort();
    }

    it('matched values: of a value at least one item is true, of memberOf and under options, too', async () => {
      const value = tlv(0x30, equal('member', personDn('p1').toUpperCase()), present('cn'));
      for (const control of both(ControlOid.matchedValues, value)) {
        const { entries } = await admin.search(GROUPS[0]!, {}, [control]);
        expect([...entries[0]!.attributes].map(([type, values]) => [type, values.map(String)])).to.have.deep.members([
          ['cn', ['one']],
          ['member', [personDn('p1')]],
        ]);
        const filter = { type: 'equal', attribute: 'objectClass', value: Buffer.from('groupOfNames') } as const;
        expect(await paged(SUFFIX, { scope: 'sub', filter }, control)).to.deep.equal(GROUPS);
      }
      const memberOf = both(ControlOid.matchedValues, tlv(0x30, equal('memberOf', GROUPS[1]!)))[0]!;
      const { entries } = await admin.search(personDn('p0'), { attributes: ['cn', 'memberOf'] }, [memberOf]);
      expect([...entries[0]!.attributes].map(([type, values]) => [type, values.map(String)])).to.deep.equal([
        ['memberOf', [GROUPS[1]]],
      ]);
      const types = await admin.search(personDn('p0'), { attributes: ['cn'], typesOnly: true }, [memberOf]);
      expect([...types.entries[0]!.attributes.keys()]).to.deep.equal(['cn']);
      for (const ill of [undefined, Buffer.from('x'), tlv(0x30, tlv(0xa0, present('cn'))), tlv(0x30, 'x')])
        expect((await admin.search(SUFFIX, {}, both(ControlOid.matchedValues, ill).slice(1))).code).to.equal(2);
    });

    it('subentries: hidden but from a base search, or alone', async () => {
      const all = dns(await admin.search(PEOPLE, { scope: 'sub' }));
      expect(all).to.deep.equal([PEOPLE, ...['p0', 'p1', 'p2'].map(personDn)].sort());
      expect(dns(await admin.search(POLICY))).to.deep.equal([POLICY]);
      for (const control of both(ControlOid.subentries, Buffer.from([1, 1, 0xff]))) {
        expect(dns(await admin.search(PEOPLE, { scope: 'sub' }, [control]))).to.deep.equal([POLICY]);
        expect(dns(await admin.search(PEOPLE, {}, [control]))).to.deep.equal([]);
        expect(await paged(SUFFIX, { scope: 'sub' }, control)).to.deep.equal([POLICY]);
      }
      for (const control of both(ControlOid.subentries, Buffer.from([1, 1, 0]))) {
        expect(dns(await admin.search(PEOPLE, { scope: 'sub' }, [control]))).to.deep.equal(all);
        expect(await paged(PEOPLE, { scope: 'sub' }, control)).to.deep.equal(all);
      }
      for (const ill of [undefined, Buffer.from([1, 0]), Buffer.from([2, 1, 1])])
        expect((await admin.search(PEOPLE, {}, both(ControlOid.subentries, ill).slice(1))).code).to.equal(2);
      expect((await admin.request({ op: 'delete', dn: POLICY })).code).to.equal(0);
      expect(dns(await admin.search(PEOPLE, { scope: 'sub' }))).to.deep.equal(all);
      await add(POLICY, { objectClass: ['subentry', 'extensibleObject'], cn: 'policy', subtreeSpecification: '{}' });
      expect(dns(await admin.search(PEOPLE, { scope: 'sub' }))).to.deep.equal(all);
    });

    it('domain scope: no references', async () => {
      expect((await admin.search(SUFFIX, { scope: 'sub' })).references).to.have.length(1);
      for (const control of both(ControlOid.domainScope)) {
        const { code, references, entries } = await admin.search(SUFFIX, { scope: 'sub' }, [control]);
        expect([code, references, entries.length]).to.deep.equal([0, [], 7]);
        expect(await paged(SUFFIX, { scope: 'sub' }, control)).to.have.length(7);
      }
      expect((await admin.search(REFERRAL, {}, both(ControlOid.domainScope).slice(1))).code).to.equal(10);
    });

    it('show deleted: for those who see all, behind the others', async () => {
      const [gone, unit] = [`uid=gone,ou=old,${PEOPLE}`, `ou=old,${PEOPLE}`];
      await add(unit, { objectClass: 'organizationalUnit', ou: 'old' });
      await add(gone, { objectClass: 'inetOrgPerson', uid: 'gone', cn: 'Gone', sn: 'gone' });
      for (const dn of [gone, unit]) await admin.request({ op: 'delete', dn });
      const filter = { type: 'equal', attribute: 'cn', value: Buffer.from('GONE') } as const;
      const isDeleted = { type: 'equal', attribute: 'isDeleted', value: Buffer.from('TRUE') } as const;
      expect(dns(await admin.search(PEOPLE, { scope: 'sub', filter }))).to.deep.equal([]);
      for (const control of both(ControlOid.showDeleted)) {
        const found = await admin.search(SUFFIX, { scope: 'sub', filter }, [control]);
        expect(dns(found)).to.deep.equal([gone]);
        expect(String(found.entries[0]!.attributes.get('isDeleted'))).to.equal('TRUE');
        const all = await paged(PEOPLE, { scope: 'sub' }, control);
        expect(all).to.include.members([gone, unit, PEOPLE, personDn('p0')]);
        expect(await paged(PEOPLE, { scope: 'sub', filter: isDeleted }, control)).to.include.members([gone, unit]);
        expect((await admin.search(PEOPLE, { scope: 'sub', sizeLimit: 4 }, [control])).code).to.equal(4);
      }
      const [critical, other] = both(ControlOid.showDeleted);
      expect((await user.search(PEOPLE, { scope: 'sub', filter }, [critical!])).code).to.equal(50);
      expect(dns(await user.search(PEOPLE, { scope: 'sub', filter }, [other!]))).to.deep.equal([]);
    });

    it('go with searches alone, and the root DSE lists them', async () => {
      const { matchedValues, subentries, domainScope, showDeleted, treeDelete } = ControlOid;
      const dse = await admin.search('', { attributes: ['supportedControl'] });
      const supported = dse.entries[0]!.attributes.get('supportedControl')!.map(String);
      expect(supported).to.include.members([matchedValues, subentries, domainScope, showDeleted, treeDelete]);
      for (const oid of [matchedValues, subentries, domainScope, showDeleted]) {
        const compare = { op: 'compare', dn: PEOPLE, attribute: 'ou', value: Buffer.from('people') } as const;
        expect((await admin.request(compare, [{ oid, critical: true, value: undefined }])).code).to.equal(12);
        expect((await admin.request(compare, [{ oid, critical: false, value: undefined }])).code).to.equal(6);
      }
    });
  });
}
