import { expect } from 'chai';
import type { Viewer } from '../../src/partition/model/viewer.js';
import type { Order } from '../../src/partition/read/order/order.js';
import type { Hit } from '../../src/partition/read/sink.js';
import { decodeResponse } from '../../src/protocol/decode-response.js';
import { Writer } from '../../src/protocol/writer.js';
import { EntryEncoder } from '../../src/server/entry/encode-entry.js';
import { Selections } from '../../src/server/entry/selection.js';
import { ENGINES, type Fixture, hiding, openFixture, refused, SUFFIX, viewedDn } from './fixture.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const named = (cn: string): string => `cn=${cn},${PEOPLE}`;

for (const engine of ENGINES) {
  describe(`who sees what (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      for (const cn of ['ann', 'bob', 'cleo'])
        await fixture.person(cn, PEOPLE, {
          mail: `${cn}@example.com`,
          description: 'x'.repeat(cn === 'ann' ? 70_000 : 9),
        });
    });
    after(() => fixture.close());

    /** Of bob's entry neither `mail` nor `sn`. */
    const notOfBob = hiding(
      ({ name }, entry, use) => use !== 'read' && viewedDn(entry) === named('bob') && ['mail', 'sn'].includes(name),
    );

    const found = (filter: string, viewer: Viewer) => fixture.find(filter, { base: PEOPLE, scope: 'one', viewer });

    it('a term on what may not be searched is Undefined in that entry, and so is its negation', async () => {
      expect(await found('(mail=*@example.com)', notOfBob)).to.deep.equal([named('ann'), named('cleo')]);
      expect(await found('(mail=bob@example.com)', notOfBob)).to.deep.equal([]);
      expect(await found('(!(mail=ann@example.com))', notOfBob)).to.deep.equal([named('cleo')]);
      expect(await found('(|(mail=bob@example.com)(cn=bob))', notOfBob)).to.deep.equal([named('bob')]);
      expect(await found('(:caseIgnoreIA5Match:=bob@example.com)', notOfBob)).to.deep.equal([]);
    });

    it('an attribute below the one asked for is as if it were not there', async () => {
      const cnOnly = hiding(({ name }) => name === 'sn');
      await fixture.person('dan', PEOPLE, { sn: 'other' });
      expect(await found('(name=other)', cnOnly)).to.deep.equal([]);
      expect(await found('(!(name=other))', cnOnly)).to.include(named('dan'));
      expect(await found('(name=dan)', cnOnly)).to.deep.equal([named('dan')]);
      await fixture.delete(named('dan'));
    });

    it('an entry that may not be seen is not found, by whichever plan', async () => {
      const allBut: Viewer = {
        sightOf: (entry) => (viewedDn(entry) === named('bob') ? undefined : { all: () => true, allows: () => true }),
      };
      for (const filter of ['(cn=bob)', '(cn=b*)', '(description=xxxxxxxxx)', '(objectClass=person)'])
        expect(await found(filter, allBut), filter).not.to.include(named('bob'));
      for (const scope of ['base', 'one', 'sub', 'subordinate'] as const)
        await refused('noSuchObject', fixture.find('(objectClass=*)', { base: named('bob'), scope, viewer: allBut }));
      const compare = async () => fixture.partition.compare(fixture.dn(named('bob')), 'cn', Buffer.from('bob'), allBut);
      await refused('noSuchObject', compare());
    });

    it('compares what may be compared', async () => {
      const compare = async (cn: string, attribute: string, value: string) =>
        fixture.partition.compare(fixture.dn(named(cn)), attribute, Buffer.from(value), notOfBob);
      expect(await compare('ann', 'mail', 'ann@example.com')).to.equal(true);
      await refused('insufficientAccessRights', compare('bob', 'mail', 'bob@example.com'));
      await refused('insufficientAccessRights', compare('bob', 'mail', 'x'));
      expect(await compare('bob', 'name', 'bob')).to.equal(true);
      expect(await compare('ann', 'description', 'x'.repeat(70_000))).to.equal(true);
      expect(await compare('ann', 'hasSubordinates', 'FALSE')).to.equal(true);
    });

    it('hands out what may be read', async () => {
      const viewer = hiding(
        ({ name }, _, use) => use === 'read' && ['mail', 'numSubordinates', 'description'].includes(name),
      );
      const encoder = new EntryEncoder(fixture.partition.descriptions, fixture.partition);
      const selection = new Selections(fixture.partition.schema).forAttributes(['mail', 'sn', 'description', '+']);
      const writer = new Writer();
      const writeLong = async (pieces: AsyncIterable<Buffer>): Promise<number> => {
        for await (const piece of pieces) writer.raw(piece);
        return writer.length;
      };
      const names: string[] = [];
      const entry = async (hit: Hit): Promise<void> => {
        await encoder.encode({ writer, writeChunked: writeLong }, 1, hit, selection, false);
        const { response } = decodeResponse(writer.take());
        if (response.op === 'searchEntry') names.push(...response.attributes.map(({ type }) => type));
      };
      for (const cn of ['ann', 'bob']) {
        await fixture.partition.search(fixture.params({ base: named(cn), scope: 'base', viewer }), {
          entry,
          reference: () => undefined,
        });
        expect(names).to.include.members(['sn', 'entryDN', 'hasSubordinates', 'entryUUID']);
        for (const hidden of ['mail', 'numSubordinates', 'description']) expect(names).not.to.include(hidden);
        names.length = 0;
      }
    });

    it('an order gets what was found and gives it on as it likes', async () => {
      const backwards: Order = {
        stage: (sink) => {
          const kept: Hit[] = [];
          return {
            entry: (hit) => void kept.push({ ...hit, dn: Buffer.from(hit.dn) }),
            reference: (urls) => sink.reference(urls),
            end: async () => {
              for (const hit of kept.reverse()) await sink.entry(hit);
            },
          };
        },
      };
      const given = { base: PEOPLE, scope: 'one' } as const;
      const { dns } = await fixture.search(given);
      expect(dns).to.have.length(3);
      const ordered = await fixture.search({ ...given, order: backwards });
      expect(ordered.dns).to.deep.equal(dns.reverse());
      expect(ordered.outcome.entries).to.equal(3);
    });
  });
}
