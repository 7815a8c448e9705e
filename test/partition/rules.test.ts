import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import type { Access, CheckedEntry, WriteRequest } from '../../src/partition/model/directory-types.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { add } from '../../src/partition/write/add.js';
import type { Rule, WriteContext } from '../../src/partition/write/context.js';
import { modify } from '../../src/partition/write/modify.js';
import { RULES } from '../../src/partition/write/rules/index.js';
import type { Reader } from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';
import { ACTOR, attributes, change, ENGINES, type Fixture, openFixture, refused, SUFFIX } from './fixture.js';

const FREE: Access = {
  renew: () => undefined,
  version: 0,
  viewer: { sightOf: () => ({ all: () => true, allows: () => true }) },
  checkRequest: () => undefined,
  checkTarget: () => undefined,
  checkNewEntry: () => undefined,
  checkMove: () => undefined,
};
const denied = (what: string): LdapError => new LdapError('insufficientAccessRights', what);

for (const engine of ENGINES) {
  describe(`rules of a write (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
    });
    afterEach(() => fixture.expectClean());
    after(() => fixture.close());

    const as = (access: Partial<Access>) => ({ ...ACTOR, access: { ...FREE, ...access } });
    const withRules = (...more: Rule[]): WriteContext => ({ ...fixture.partition.context, rules: [...RULES, ...more] });

    it('refuse what needs no entry before anything is read', async () => {
      let reads = 0;
      const counting = new Proxy(fixture.store, {
        get: (target, name: keyof Reader) => {
          const member: unknown = Reflect.get(target, name);
          if (typeof member !== 'function') return member;
          return (...given: unknown[]) => {
            reads++;
            return (member as (...of: unknown[]) => unknown).apply(target, given);
          };
        },
      });
      const context = { ...fixture.partition.context, store: counting };
      const actor = as({ checkRequest: ({ op }) => denied(`no ${op}`) });
      const dn = fixture.dn(`cn=nobody,${SUFFIX}`);
      await refused(
        'insufficientAccessRights',
        modify(context, dn, [change('replace', 'sn', 'x')], actor),
        /no modify/,
      );
      await refused(
        'insufficientAccessRights',
        add(context, dn, attributes({ objectClass: 'person' }), actor),
        /no add/,
      );
      expect(reads).to.equal(0);
    });

    it('let nobody learn whether an entry exists that is not there for them', async () => {
      const actor = as({ viewer: { sightOf: () => undefined } });
      const { partition } = fixture;
      for (const dn of [fixture.dn(SUFFIX), fixture.dn(`cn=nobody,${SUFFIX}`)]) {
        const rename = { newRdn: 'cn=x', deleteOldRdn: true, newSuperior: undefined };
        const told: unknown[] = [];
        // The value is not there: that is not told either.
        const writes = [
          () => partition.modify(dn, [change('delete', 'o', 'no')], actor),
          () => partition.delete(dn, actor),
          () => partition.rename(dn, rename, actor),
        ];
        for (const write of writes) {
          const error = await write().catch((thrown) => thrown);
          expect(error).to.be.instanceOf(LdapError);
          const { result, message, matchedDN } = error as LdapError;
          told.push([result, message, matchedDN]);
        }
        const nothing = ['noSuchObject', 'there is no entry with this name', ''];
        expect(told).to.deep.equal([nothing, nothing, nothing]);
      }
    });

    it('decide on the entry that is changed: another that takes its name meanwhile is asked about anew', async () => {
      const mine = await fixture.person('mine');
      const seen: string[] = [];
      const actor = as({
        checkTarget: (_: WriteRequest, { node }: CheckedEntry) => {
          seen.push(node.dn.toString());
          return node.id.equals(mine) ? undefined : denied('another');
        },
      });
      const dn = fixture.dn(`cn=mine,${SUFFIX}`);
      let other: Promise<unknown> | undefined;
      const slow: Rule = {
        name: 'somebody is faster',
        checkChange: async () => {
          other ??= (async () => {
            await fixture.rename(`cn=mine,${SUFFIX}`, 'cn=away');
            await fixture.person('mine');
          })();
          await other;
          return undefined;
        },
      };
      await refused(
        'insufficientAccessRights',
        modify(withRules(slow), dn, [change('replace', 'sn', 'x')], actor),
        /another/,
      );
      expect(seen).to.have.length(2);
      expect(await fixture.values(`cn=mine,${SUFFIX}`, 'sn')).to.deep.equal(['mine']);
      expect(await fixture.values(`cn=away,${SUFFIX}`, 'sn')).to.deep.equal(['mine']);
    });

    it('may amend a change and add steps, seen by those behind them; one that refuses leaves nothing', async () => {
      const table = META_TABLE.name;
      const key = Buffer.from('rule');
      const cell = { family: 0, qualifier: Buffer.from('cn=ruled') };
      const description = fixture.partition.schema.requireDescription('description');
      const amending: Rule = {
        name: 'amends',
        checkChange: (_, { op }) =>
          op === 'add'
            ? {
                amend: (draft) => draft.replace(description, 'description', [Buffer.from('amended')]),
                steps: [
                  { table, key, guards: [{ op: 'absent', ...cell }], put: [{ ...cell, value: Buffer.from('1') }] },
                ],
              }
            : undefined,
      };
      const seeing: Rule = {
        name: 'sees',
        checkChange: async (_, { after }) =>
          after?.valueText('description') === 'amended' ? undefined : { refuse: denied('not amended') },
      };
      const values = attributes({ objectClass: 'person', sn: 'x' });
      const dn = fixture.dn(`cn=ruled,${SUFFIX}`);
      await refused('insufficientAccessRights', add(withRules(seeing), dn, values, ACTOR), /not amended/);
      expect(await fixture.store.get(table, key)).to.equal(undefined);
      await add(withRules(amending, seeing), dn, values, ACTOR);
      expect(await fixture.values(`cn=ruled,${SUFFIX}`, 'description')).to.deep.equal(['amended']);
      expect(await fixture.store.get(table, key)).to.be.instanceOf(Buffer);
      await fixture.store.commit({ steps: [{ table, key, deleteRow: true }], decisive: 0 });
    });

    it('whose guard fails is tried again after others had a turn, each time', async () => {
      const tries = 30;
      let left = tries;
      let turns = 0;
      let going = true;
      const count = (): void => {
        turns++;
        if (going) setImmediate(count);
      };
      count();
      const failing: Rule = {
        name: 'somebody was faster',
        checkChange: () => {
          if (left-- > 0) throw new StoreError('guard', 'tried again');
          return undefined;
        },
      };
      await modify(withRules(failing), fixture.dn(SUFFIX), [change('replace', 'description', 'x')], ACTOR);
      going = false;
      expect(turns).to.be.at.least(tries);
    });
  });
}
