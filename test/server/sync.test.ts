import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import { changeCells } from '../../src/partition/model/change-record.js';
import { CHANGES_TABLE } from '../../src/partition/model/tables.js';
import type { Dn } from '../../src/schema/schema-types.js';
import type { PlanStep } from '../../src/store/contract.js';
import { ENGINES, openStore, seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import {
  ADMIN,
  addPerson,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  PEOPLE,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RandomChanges } from './random-changes.js';
import { RawClient, searchRequest, simpleBind } from './raw-client.js';
import { type Copy, SyncConsumer, syncRequest } from './sync-consumer.js';

const ACTOR = { dn: ADMIN.dn };
const IN_HBASE = 120_000;
const P0 = { dn: personDn('p0'), password: 'secret-0' };

for (const engine of ENGINES) {
  describe(`server: content synchronization (${engine})`, function () {
    this.timeout(IN_HBASE);
    let running: Running;
    let client: RawClient;
    let close: () => Promise<void>;
    const clients: RawClient[] = [];

    before(async () => {
      const { store } = await openStore(engine);
      const partition = await emptyPartition(store);
      await fill(partition, 3);
      running = await start(CHEAP, 0, partition);
      close = () => partition.close();
    });
    after(async () => {
      await running.stop();
      await close();
    });
    beforeEach(async () => {
      client = await connect();
    });
    afterEach(() => {
      for (const one of clients.splice(0)) one.close();
    });

    async function connect(dn = ADMIN.dn, password = ADMIN.password): Promise<RawClient> {
      const made = await RawClient.open(running.port);
      clients.push(made);
      expect(await made.bind(dn, password)).to.equal(0);
      return made;
    }

    const parse = (dn: string) => testSchema().parseDn(dn);
    const modify = (dn: string, type: string, ...values: string[]): Promise<void> =>
      running.partition.modify(
        parse(dn),
        [{ operation: 'replace', attribute: { type, values: values.map((value) => Buffer.from(value)) } }],
        ACTOR,
      );
    const rename = (dn: string, newRdn: string, newSuperior?: string): Promise<void> =>
      running.partition.rename(parse(dn), { newRdn, deleteOldRdn: true, newSuperior }, ACTOR);
    const remove = (dn: string): Promise<void> => running.partition.delete(parse(dn), ACTOR);
    const unit = (ou: string, parent = PEOPLE): Promise<Buffer> =>
      running.partition.add(
        parse(`ou=${ou},${parent}`),
        [
          { type: 'objectClass', values: [Buffer.from('organizationalUnit')] },
          { type: 'ou', values: [Buffer.from(ou)] },
        ],
        ACTOR,
      );

    /** What a search finds, as a copy. */
    async function contents(base: string, parts: Parameters<typeof searchRequest>[1] = {}): Promise<Copy> {
      const attributes = [
        '*',
        'entryUUID',
        'entryCSN',
        'createTimestamp',
        'modifyTimestamp',
        'creatorsName',
        'modifiersName',
        'structuralObjectClass',
      ];
      const found = await client.search(base, { scope: 'sub', attributes, ...parts });
      return new Map(
        found.entries.map(({ dn, attributes }) => [
          String(attributes.get('entryUUID')),
          { dn, attributes: new Map([...attributes].map(([type, values]) => [type, values.map(String).sort()])) },
        ]),
      );
    }

    async function expectEqual(consumer: SyncConsumer, base = SUFFIX): Promise<void> {
      const wanted = await contents(base);
      const shown = (copy: Copy, id: string): string => {
        const entry = copy.get(id);
        return entry
          ? [entry.dn, ...[...entry.attributes].map((attribute) => attribute.join(': ')).sort()].join('\n')
          : 'none';
      };
      for (const id of new Set([...wanted.keys(), ...consumer.copy.keys()]))
        expect(shown(consumer.copy, id)).to.equal(shown(wanted, id));
    }

    it('refreshOnly: sends all entries, then those that have changed, and deletions', async () => {
      const consumer = new SyncConsumer(SUFFIX);
      expect(await consumer.refresh(client)).to.equal(0);
      await expectEqual(consumer);
      expect(consumer.heard()).to.include(`add ${PEOPLE}`);
      await addPerson(running.partition, 'new1');
      await modify(personDn('p1'), 'mail', 'other@example.com');
      await addPerson(running.partition, 'gone1');
      await remove(personDn('gone1'));
      expect(await consumer.refresh(client)).to.equal(0);
      expect(consumer.heard().sort()).to.deep.equal([
        `add ${personDn('new1')}`,
        `add ${personDn('p1')}`,
        `delete ${personDn('gone1')}`,
        'done 0',
      ]);
      await expectEqual(consumer);
      const { cookie } = consumer;
      expect(await consumer.refresh(client)).to.equal(0);
      expect(consumer.heard()).to.deep.equal(['done 0']);
      expect(consumer.cookie).to.equal(cookie);
    });

    it('a cookie has the greatest entryCSN, which is contextCSN of the suffix entry', async () => {
      const consumer = new SyncConsumer(SUFFIX);
      await consumer.refresh(client);
      const csns = [...consumer.copy.values()].map(({ attributes }) => attributes.get('entryCSN')![0]!);
      expect(consumer.csn >= csns.sort().at(-1)!).to.equal(true);
      for (const attributes of [['contextCSN'], ['*', '+']]) {
        const found = await client.search(SUFFIX, { scope: 'sub', attributes });
        const shown = found.entries.filter(({ attributes }) => attributes.has('contextCSN'));
        expect(shown.map(({ dn }) => dn)).to.deep.equal([SUFFIX]);
        expect(shown[0]!.attributes.get('contextCSN')!.map(String)).to.deep.equal([consumer.csn]);
      }
      const byCsn = { type: 'present', attribute: 'contextCSN' } as const;
      expect((await client.search(SUFFIX, { scope: 'sub', filter: byCsn })).entries).to.deep.equal([]);
    });

    it('an entry that leaves filter or scope is a deletion, one that enters is an entry', async () => {
      const consumer = new SyncConsumer(PEOPLE, {
        filter: { type: 'equal', attribute: 'l', value: Buffer.from('here') },
      });
      await addPerson(running.partition, 'in1', { l: 'here' });
      await addPerson(running.partition, 'in2', { l: 'here' });
      await addPerson(running.partition, 'in3', { l: 'elsewhere' });
      await consumer.refresh(client);
      expect([...consumer.copy.values()].map(({ dn }) => dn).sort()).to.deep.equal([personDn('in1'), personDn('in2')]);
      consumer.heard();
      await modify(personDn('in1'), 'l', 'elsewhere');
      await rename(personDn('in2'), 'uid=in2', SUFFIX);
      await modify(personDn('in3'), 'l', 'here');
      await consumer.refresh(client);
      expect(consumer.heard()).to.deep.equal([
        `delete ${personDn('in1')}`,
        `delete ${personDn('in2')}`,
        `add ${personDn('in3')}`,
        'done 0',
      ]);
    });

    it('a rename of a subtree sends the entries below with their new names', async () => {
      await unit('tree');
      await running.partition.add(
        parse(`cn=leaf,ou=tree,${PEOPLE}`),
        [
          { type: 'objectClass', values: [Buffer.from('applicationProcess')] },
          { type: 'cn', values: [Buffer.from('leaf')] },
        ],
        ACTOR,
      );
      const all = new SyncConsumer(SUFFIX);
      const below = new SyncConsumer(PEOPLE);
      for (const one of [all, below]) await one.refresh(client);
      for (const one of [all, below]) one.heard();
      await rename(`ou=tree,${PEOPLE}`, 'ou=moved', SUFFIX);
      for (const one of [all, below]) await one.refresh(client);
      expect(all.heard()).to.deep.equal([`add ou=moved,${SUFFIX}`, `add cn=leaf,ou=moved,${SUFFIX}`, 'done 0']);
      expect(below.heard()).to.deep.equal([`delete ou=tree,${PEOPLE}`, 'delete', 'done 0']);
      await expectEqual(all);
      await expectEqual(below, PEOPLE);
    });

    it('names that entries exchange are free before they are taken', async () => {
      await addPerson(running.partition, 'swap1');
      await addPerson(running.partition, 'swap2');
      const consumer = new SyncConsumer(SUFFIX);
      await consumer.refresh(client);
      consumer.heard();
      await rename(personDn('swap1'), 'uid=swap0');
      await rename(personDn('swap2'), 'uid=swap1');
      await rename(personDn('swap0'), 'uid=swap3');
      await consumer.refresh(client);
      expect(consumer.heard()).to.deep.equal([`add ${personDn('swap3')}`, `add ${personDn('swap1')}`, 'done 0']);
      await rename(personDn('swap1'), 'uid=swap0');
      await rename(personDn('swap3'), 'uid=swap1');
      await rename(personDn('swap0'), 'uid=swap3');
      await consumer.refresh(client);
      const heard = consumer.heard();
      expect(heard.map((text) => text.split(' ')[0])).to.deep.equal(['delete', 'add', 'add', 'done']);
      await expectEqual(consumer);
    });

    it('refreshAndPersist: sends changes as they come, each group with a greater cookie at its end', async () => {
      const consumer = new SyncConsumer(SUFFIX);
      await consumer.persist(client);
      expect(consumer.heard().at(-1)).to.equal('refreshPresent');
      await addPerson(running.partition, 'live1');
      await consumer.until(() => consumer.heard().includes('newcookie'));
      await modify(personDn('live1'), 'l', 'x');
      await remove(personDn('live1'));
      const { csn } = await running.partition.feed.latest();
      await consumer.untilCsn(csn!);
      await expectEqual(consumer);
      // Other requests of the connection are answered meanwhile.
      expect((await client.search(SUFFIX)).code).to.equal(0);
      client.send({ op: 'abandon', target: consumer.operation });
      const again = await connect();
      await modify(personDn('p1'), 'l', 'after');
      await consumer.persist(again);
      expect(consumer.heard()).to.include('refreshDelete');
      await expectEqual(consumer);
    });

    it('equals the directory after random changes, with restarts of the consumer', () =>
      seeded(async (random) => {
        const changes = new RandomChanges([running.partition], random);
        await changes.addUnits(8);
        await changes.addPeople(30);
        const polling = new SyncConsumer(SUFFIX);
        const following = new SyncConsumer(SUFFIX);
        await polling.refresh(client);
        for (let round = rounds(4, 40); round > 0; round--) {
          const connection = await connect();
          await following.persist(connection);
          for (let n = 0; n < 25; n++) await changes.change();
          const { csn } = await running.partition.feed.latest();
          if (random.chance(0.7)) {
            await following.untilCsn(csn!);
            await expectEqual(following);
          }
          connection.close();
          await polling.refresh(client);
          await expectEqual(polling);
        }
      }));

    it('a cookie that no change record has, or that is too old, brings all entries and a present phase', async () => {
      for (const csn of [
        '20200101000000.000000Z#000000#000#000000',
        '20990101000000.000000Z#000000#000#000000',
        'nonsense',
      ]) {
        const consumer = new SyncConsumer(SUFFIX);
        await consumer.refresh(client);
        consumer.copy.set('gone', { dn: 'cn=gone', attributes: new Map() });
        const id = client.send(searchRequest(SUFFIX, { scope: 'sub' }), [syncRequest(1, `rid=007,csn=${csn}`)]);
        const answer = await client.answer(id);
        expect(answer.entries.length).to.equal(consumer.copy.size - 1);
      }
    });

    it('a rename that a trim has removed from the records brings a present phase', async () => {
      const consumer = new SyncConsumer(SUFFIX);
      await consumer.refresh(client);
      await addPerson(running.partition, 'trim1');
      await remove(personDn('trim1'));
      await addPerson(running.partition, 'trim2');
      await running.partition.trimChanges(Date.now() + 1000);
      expect(await running.partition.store.count(CHANGES_TABLE.name, {}, 10)).to.equal(1);
      consumer.heard();
      expect(await consumer.refresh(client)).to.equal(0);
      expect(consumer.heard()).to.include(`add ${PEOPLE}`);
      await expectEqual(consumer);
      await consumer.refresh(client);
      expect(consumer.heard()).to.deep.equal(['done 0']);
    });

    it('a refresh that is cut short does not end as complete', async () => {
      const consumer = new SyncConsumer(SUFFIX, { sizeLimit: 2 });
      expect(await consumer.refresh(client)).to.equal(4);
      expect(consumer.cookie).to.equal('');
    });

    it('a cookie does not tell of a base that the client may not see', async () => {
      const user = await connect(personDn('p2'), 'secret-2');
      try {
        await addPerson(running.partition, 'hidden1', { l: 'hidden' });
        const hiding = PRESETS['users-read'].replace(
          /^rules:\n/m,
          `rules:
  - name: some are hidden
    who: { users: true }
    to: { filter: "(l=hidden)" }
    deny: [view]
`,
        );
        await running.partition.setAccess(hiding, 'test', running.partition.accessVersion);
        await modify(PEOPLE, 'description', 'later');
        const { csn } = await running.partition.feed.latest();
        await modify(personDn('hidden1'), 'description', 'changed');
        for (const uid of ['hidden1', 'absent1']) {
          const answer = await user.search(personDn(uid), {}, [syncRequest(1, `csn=${csn}`)]);
          expect([answer.code, answer.final.matchedDN, answer.entries]).to.deep.equal([32, PEOPLE, []]);
        }
      } finally {
        await running.partition.setAccess(PRESETS['users-read'], 'test', running.partition.accessVersion);
      }
    });

    it('the limits of a search hold for what has changed since a cookie', async () => {
      const text = (limit: string): string => `rules:
  - name: users read
    who: { users: true }
    allow: [view]
limits:
  - name: few
    who: { users: true }
    ${limit}: 5
`;
      const user = await connect(personDn('p2'), 'secret-2');
      try {
        for (const [limit, code] of [
          ['sizeLimit', 4],
          ['lookLimit', 11],
        ] as const) {
          await running.partition.setAccess(text(limit), 'test', running.partition.accessVersion);
          await modify(PEOPLE, 'description', limit);
          const { csn } = await running.partition.feed.latest();
          for (let n = 0; n < 7; n++) await modify(personDn(`p${n % 3}`), 'l', `${limit}${n}`);
          const few = await user.search(PEOPLE, { scope: 'one' }, [syncRequest(1, `csn=${csn}`)]);
          if (limit === 'sizeLimit') expect([few.code, few.entries.length]).to.deep.equal([0, 3]);
          for (let n = 0; n < 6; n++) await addPerson(running.partition, `${limit}${n}`);
          const answer = await user.search(PEOPLE, { scope: 'one' }, [syncRequest(1, `csn=${csn}`)]);
          expect(answer.code).to.equal(code);
          if (limit === 'sizeLimit') expect(answer.entries.length).to.equal(5);
          const asked = { scope: 'one', sizeLimit: 2 } as const;
          expect((await client.search(PEOPLE, asked, [syncRequest(1, `csn=${csn}`)])).code).to.equal(4);
        }
        await unit('limited');
        await unit('below', `ou=limited,${PEOPLE}`);
        const { csn } = await running.partition.feed.latest();
        await rename(`ou=limited,${PEOPLE}`, 'ou=renamed');
        const asked = { scope: 'sub', sizeLimit: 1 } as const;
        expect((await client.search(PEOPLE, asked, [syncRequest(1, `csn=${csn}`)])).code).to.equal(4);
      } finally {
        await running.partition.setAccess(PRESETS['users-read'], 'test', running.partition.accessVersion);
      }
    });

    it('a bind, the loss of the bind and a shutdown of the connection end the search', async () => {
      const admin = await connect();
      const consumer = new SyncConsumer(SUFFIX);
      await consumer.persist(admin);
      const bind = admin.send(simpleBind(ADMIN.dn, ADMIN.password));
      expect(await consumer.end()).to.equal(118);
      expect((await admin.answer(bind)).code).to.equal(0);
      const user = await connect(P0.dn, P0.password);
      const ofUser = new SyncConsumer(PEOPLE);
      await ofUser.persist(user);
      await running.partition.modify(
        parse(P0.dn),
        [{ operation: 'replace', attribute: { type: 'userPassword', values: [Buffer.from('{CLEARTEXT}new')] } }],
        ACTOR,
      );
      expect(await ofUser.end()).to.equal(50);
    });

    it('secrets are sent to nobody by *, +', async () => {
      const consumer = new SyncConsumer(SUFFIX);
      await consumer.refresh(client);
      for (const { attributes } of consumer.copy.values())
        expect([...attributes.keys()]).to.not.include('userPassword');
    });

    it('the rights are those at the time of sending', async () => {
      const rules = (text: string): Promise<number> =>
        running.partition.setAccess(text, 'test', running.partition.accessVersion);
      const user = await connect(personDn('p2'), 'secret-2');
      try {
        await rules(`rules:
  - name: users read what is not hidden
    who: { users: true }
    to: { filter: "(!(l=hidden))" }
    allow: [view]
`);
        await addPerson(running.partition, 'seen1');
        await addPerson(running.partition, 'unseen1', { l: 'hidden' });
        const consumer = new SyncConsumer(SUFFIX);
        await consumer.persist(user);
        const dns = (): string[] => [...consumer.copy.values()].map(({ dn }) => dn);
        expect(dns()).to.include(personDn('seen1'));
        expect(dns()).to.not.include(personDn('unseen1'));
        consumer.heard();
        await modify(personDn('seen1'), 'l', 'hidden');
        await consumer.until(() => !dns().includes(personDn('seen1')));
        // No name of an entry that the client perhaps never saw.
        expect(consumer.heard()).to.deep.equal(['delete']);
        await rules(PRESETS['users-read']);
        await modify(personDn('p1'), 'l', 'there');
        expect(await consumer.end()).to.equal(4096);
        await consumer.persist(user);
        expect(consumer.heard()).to.include('refreshPresent');
        expect(dns()).to.include(personDn('unseen1'));
      } finally {
        await rules(PRESETS['users-read']);
      }
    });
  });
}

describe('server: content synchronization of many changes', () => {
  it('sends a long chain of renames so that each name is free before it is taken', async () => {
    const running = await start(CHEAP);
    const { partition } = running;
    const client = await RawClient.open(running.port);
    try {
      await client.bind(ADMIN.dn, ADMIN.password);
      const numbers = Array.from({ length: 12_000 }, (_, n) => n);
      const dn = (n: number): string => `cn=c${n},${SUFFIX}`;
      const parse = (n: number): Dn => testSchema().parseDn(dn(n));
      const consumer = new SyncConsumer(SUFFIX, { scope: 'one' });
      expect(await consumer.refresh(client)).to.equal(0);
      async function* entries() {
        const parts = (n: number) => attributes({ objectClass: 'applicationProcess', cn: `c${n}` });
        yield numbers.map((n) => ({ line: n + 1, dn: dn(n + 1), attributes: parts(n + 1) }));
      }
      await partition.load(entries(), ACTOR, { continue: false, onReject: ({ reason }) => expect.fail(reason) });
      const time = Buffer.alloc(8);
      time.writeBigUInt64BE(BigInt(Date.now()));
      const steps: PlanStep[] = [];
      for (const n of numbers.toReversed()) {
        const { id } = (await partition.findRow(parse(n + 1)))!;
        const formerRdn = parse(n).rdns[0]!.norm;
        const beforeImage = Buffer.concat([Buffer.from('\0\x07normRdn'), Buffer.of(formerRdn.length), formerRdn]);
        const csn = consumer.csn.replace('#000000#', `#${(numbers.length - n).toString(16).padStart(6, '0')}#`);
        const names = { dn: Buffer.from(dn(n)), newDn: Buffer.from(dn(n + 1)) };
        const append = changeCells({ op: 'rename', id, ...names, writerDn: '', csn, time, beforeImage });
        steps.push({ table: CHANGES_TABLE.name, append });
      }
      await partition.store.commit({ steps, decisive: 0 });
      consumer.heard();
      expect(await consumer.refresh(client)).to.equal(0);
      expect(consumer.heard()).to.deep.equal([...numbers.toReversed().map((n) => `add ${dn(n + 1)}`), 'done 0']);
    } finally {
      client.close();
      await running.stop();
    }
  });

  it('sends nothing more to a slow client whose bind has become invalid', async () => {
    const running = await start({ ...CHEAP, 'limits.unsentBytes': 64 * 1024 }, 300);
    const { partition, server } = running;
    const client = await RawClient.open(running.port);
    const replace = (dn: string, type: string, value: string): Promise<void> => {
      const attribute = { type, values: [Buffer.from(value)] };
      return partition.modify(testSchema().parseDn(dn), [{ operation: 'replace', attribute }], ACTOR);
    };
    const describeAll = async (value: string): Promise<void> => {
      for (let n = 1; n < 300; n++) await replace(personDn(`p${n}`), 'description', value);
    };
    try {
      expect(await client.bind(P0.dn, P0.password)).to.equal(0);
      const consumer = new SyncConsumer(PEOPLE);
      await consumer.refresh(client);
      await describeAll('before'.repeat(10_000));
      client.socket.pause();
      const refresh = consumer.refresh(client);
      while (server.unsentTotal.bytes <= 64 * 1024) await new Promise(setImmediate);
      await replace(P0.dn, 'userPassword', '{CLEARTEXT}new');
      await describeAll('after');
      client.socket.resume();
      expect(await refresh).to.equal(50);
      const descriptions = [...consumer.copy.values()].map(({ attributes }) => attributes.get('description')?.[0]);
      expect(descriptions).to.include('before'.repeat(10_000));
      expect(descriptions).to.not.include('after');
    } finally {
      client.close();
      await running.stop();
    }
  });
});
