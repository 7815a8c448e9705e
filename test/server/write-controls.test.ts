import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { hashPasswordFast } from '../../src/password/index.js';
import type { Control, Request } from '../../src/protocol/ldap-messages.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { openStore } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';
import { seq, str, tlv } from '../protocol/bytes.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  PEOPLE,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
} from './directory.js';
import { type Answer, entryIn, RawClient, searchRequest } from './raw-client.js';

const [APP, ADA, BOB, DORA] = [personDn('app'), personDn('ada'), personDn('bob'), personDn('dora')];
const POLICY = `cn=policy,${SUFFIX}`;
const RULES = `rules:
  - { name: users read, who: { users: true }, allow: [view] }
  - { name: not descriptions, who: { users: true }, to: { attributes: [description] }, deny: [search, compare] }
  - { name: no titles, who: { users: true }, to: { attributes: [title] }, deny: [read] }
  - { name: own entry, who: { self: true }, allow: [write, remove, rename] }
  - { name: own password, who: { self: true }, to: { attributes: [userPassword] }, allow: [write] }
  - { name: ada adds, who: { dn: "${ADA}" }, to: { subtree: "${PEOPLE}", attributes: [entry, children, "*", userPassword] }, allow: [create, add] }
  - { name: dora is hidden, who: { not: { self: true } }, to: { base: "${DORA}" }, deny: [view] }
  - { name: app acts for people, who: { dn: "${APP}" }, to: { subtree: "${PEOPLE}" }, allow: [proxy] }
  - { name: not for bob, who: { dn: "${APP}" }, to: { base: "${BOB}" }, deny: [proxy] }
`;

const control = (oid: string, value?: Buffer, critical = true): Control => ({ oid, critical, value });
const as = (authzId: string) => control(ControlOid.proxiedAuthorization, Buffer.from(authzId));
const preRead = (...names: string[]) => control(ControlOid.preRead, seq(...names.map(str)));
const postRead = (...names: string[]) => control(ControlOid.postRead, seq(...names.map(str)));
/** The assertion `(type=value)`. */
const assertion = (type: string, value: string) => control(ControlOid.assertion, tlv(0xa3, str(type), str(value)));
const NO_OP = control(ControlOid.noOp);
const PERMISSIVE = control(ControlOid.permissiveModify);
const RELAX = control(ControlOid.relax);

function change(operation: Modification['operation'], type: string, ...values: (string | Buffer)[]): Modification {
  return { operation, attribute: { type, values: values.map((value) => Buffer.from(value)) } };
}

const modifyOf = (dn: string, ...changes: Modification[]): Request => ({ op: 'modify', dn, changes });
const renameOf = (dn: string, newRdn: string): Request => ({
  ...{ op: 'modifyDN', dn, newRdn, deleteOldRdn: true, newSuperior: undefined },
});
const addOf = (uid: string, extra: Parameters<typeof personAttributes>[1] = {}): Request => ({
  ...{ op: 'add', dn: personDn(uid), attributes: personAttributes(uid, extra) },
});
const compareOf = (dn: string, attribute: string, value: string): Request => ({
  ...{ op: 'compare', dn, attribute, value: Buffer.from(value) },
});
const WHO_AM_I: Request = { op: 'extended', oid: ExtendedOid.whoAmI, value: undefined };

/** The entry in a response control, as lines; undefined: the response has no such control. */
function linesIn(answer: Answer, oid: string): string[] | undefined {
  const entry = entryIn(answer, oid);
  return entry && linesOf(entry);
}

function linesOf({ dn, attributes: found }: Pick<Answer['entries'][number], 'dn' | 'attributes'>): string[] {
  const lines = [...found].flatMap(([type, values]) => values.map((value) => `${type}: ${value.toString('latin1')}`));
  return [`dn: ${dn}`, ...lines.sort()];
}

for (const engine of NEAR_ENGINES) {
  describe(`server: controls of writes (${engine})`, () => {
    let server: Running;
    let stop: () => Promise<void>;
    let admin: RawClient;
    let ada: RawClient;
    let app: RawClient;

    before(async () => {
      const { store } = await openStore(engine);
      const partition = await emptyPartition(store as never, RULES);
      await fill(partition, 0);
      server = await start({ ...CHEAP, 'passwords.policy': POLICY }, 0, partition);
      admin = await bound(ADMIN.dn, ADMIN.password);
      const userPassword = hashPasswordFast(Buffer.from('pw')).toString();
      for (const uid of ['app', 'ada', 'bob', 'dora']) {
        const extra = { userPassword, title: `title of ${uid}`, description: uid };
        expect((await admin.request(addOf(uid, extra))).code).to.equal(0);
      }
      [ada, app] = [await bound(ADA, 'pw'), await bound(APP, 'pw')];
      stop = async () => {
        for (const client of [admin, ada, app]) client.close();
        await server.stop();
        await partition.close();
      };
    });
    after(() => stop());

    async function bound(dn: string, password: string): Promise<RawClient> {
      const client = await RawClient.open(server.port);
      expect(await client.bind(dn, password)).to.equal(0);
      return client;
    }

    async function code(client: RawClient, request: Request, ...controls: Control[]): Promise<number> {
      return (await client.request(request, controls)).code;
    }

    async function does(client: RawClient, request: Request, ...controls: Control[]): Promise<Answer> {
      const answer = await client.request(request, controls);
      expect(answer.code, answer.final.message).to.equal(0);
      return answer;
    }

    async function found(client: RawClient, dn: string, ...names: string[]): Promise<string[] | undefined> {
      const { entries } = await client.search(dn, { attributes: names });
      return entries[0] && linesOf(entries[0]);
    }

    const everything = ['*', '+', 'memberOf', 'userPassword'];

    it('pre-read and post-read are what a search shows before and after', async () => {
      for (const client of [admin, ada]) {
        const added = await does(
          client,
          addOf('read', { title: 'x', userPassword: 'secret words' }),
          postRead(...everything),
        );
        const stored = await found(client, personDn('read'), ...everything);
        expect(linesIn(added, ControlOid.postRead)).to.deep.equal(stored);
        expect(stored!.join()).to.not.match(/userPassword/);
        expect(stored!.some((line) => line.startsWith('title'))).to.equal(client === admin);
        const group = { objectClass: 'groupOfNames', cn: 'read', member: personDn('read') };
        await does(admin, { op: 'add', dn: `cn=read,${SUFFIX}`, attributes: attributes(group) });
        const before = await found(client, personDn('read'), ...everything);
        expect(before!.join()).to.include('memberOf: cn=read');
        const write = modifyOf(personDn('read'), change('add', 'telephoneNumber', '1'));
        const modified = await does(client, write, preRead(...everything), postRead(...everything));
        expect(linesIn(modified, ControlOid.preRead)).to.deep.equal(before);
        const after = await found(client, personDn('read'), ...everything);
        expect(after).to.not.deep.equal(before);
        expect(linesIn(modified, ControlOid.postRead)).to.deep.equal(after);
        const renamed = await does(admin, renameOf(personDn('read'), 'uid=other'), preRead(), postRead(...everything));
        expect(linesIn(renamed, ControlOid.postRead)).to.deep.equal(
          await found(admin, personDn('other'), ...everything),
        );
        const last = await found(admin, personDn('other'), 'cn', 'entryDN');
        const deleted = await does(admin, { op: 'delete', dn: personDn('other') }, preRead('cn', 'entryDN'));
        expect(linesIn(deleted, ControlOid.preRead)).to.deep.equal(last);
        await does(admin, { op: 'delete', dn: `cn=read,${SUFFIX}` });
      }
    });

    it('the number of children is that which the client sees', async () => {
      const names = ['numSubordinates', 'hasSubordinates'];
      const write = modifyOf(PEOPLE, change('replace', 'description', 'x'));
      const answer = await does(admin, write, preRead(...names), postRead(...names));
      const expected = await found(admin, PEOPLE, ...names);
      expect(expected).to.include('numSubordinates: 4');
      expect(linesIn(answer, ControlOid.preRead)).to.deep.equal(expected);
      expect(linesIn(answer, ControlOid.postRead)).to.deep.equal(expected);
    });

    it('long values and many values are read as well', async () => {
      const [photo, other] = [Buffer.alloc(100_000, 1), Buffer.alloc(90_000, 2)];
      const numbers = Array.from({ length: 2000 }, (_, n) => `+49 ${n}`);
      await does(admin, addOf('long', { telephoneNumber: numbers, jpegPhoto: photo.toString('latin1') }));
      await does(admin, modifyOf(personDn('long'), change('replace', 'jpegPhoto', photo)));
      const write = modifyOf(
        personDn('long'),
        change('replace', 'jpegPhoto', photo, other),
        change('delete', 'telephoneNumber', '+49 7'),
      );
      const before = await found(admin, personDn('long'), '*');
      const answer = await does(admin, write, preRead('*'), postRead('*'), assertion('telephoneNumber', '+49 7'));
      expect(linesIn(answer, ControlOid.preRead)).to.deep.equal(before);
      const after = await found(admin, personDn('long'), '*');
      expect(linesIn(answer, ControlOid.postRead)).to.deep.equal(after);
      expect(await code(admin, write, assertion('telephoneNumber', '+49 7'))).to.equal(122);
      const small = await does(
        admin,
        modifyOf(personDn('long'), change('replace', 'sn', 'x')),
        postRead('sn', 'jpegPhoto'),
      );
      expect(linesIn(small, ControlOid.postRead)).to.deep.equal(
        await found(admin, personDn('long'), 'sn', 'jpegPhoto'),
      );
      await does(admin, { op: 'delete', dn: personDn('long') });
    });

    it('an entry that the client may not see is not read', async () => {
      // Hidden by its name: ada may add dora, and sees nothing of her.
      await does(admin, renameOf(DORA, 'uid=eve'));
      const answer = await does(ada, addOf('dora'), postRead('*'));
      expect(linesIn(answer, ControlOid.postRead)).to.equal(undefined);
      await does(admin, { op: 'delete', dn: DORA });
      await does(admin, renameOf(personDn('eve'), 'uid=dora'));
    });

    it('an assertion decides on every operation', async () => {
      await does(admin, addOf('asserted'), assertion('cn', 'person ASSERTED'));
      const dn = personDn('asserted');
      expect(await code(admin, addOf('never'), assertion('cn', 'another'))).to.equal(122);
      expect(await code(admin, addOf('asserted'), assertion('cn', 'another'))).to.equal(68);
      const requests: Request[] = [
        modifyOf(dn, change('replace', 'sn', 'y')),
        renameOf(dn, 'uid=renamed'),
        { op: 'delete', dn: personDn('renamed') },
      ];
      for (const request of [searchRequest(dn), searchRequest(PEOPLE, { scope: 'sub' })]) {
        expect(await code(admin, request, assertion('objectClass', 'top'))).to.equal(0);
        expect(await code(admin, request, assertion('cn', 'another'))).to.equal(122);
      }
      expect(await code(admin, compareOf(dn, 'sn', 'asserted'), assertion('cn', 'person asserted'))).to.equal(6);
      expect(await code(admin, compareOf(dn, 'sn', 'asserted'), assertion('cn', 'another'))).to.equal(122);
      for (const request of requests) {
        expect(await code(admin, request, assertion('cn', 'another'))).to.equal(122);
        expect(await code(admin, request, { ...assertion('cn', 'another'), critical: false })).to.equal(122);
        expect(await code(admin, request, assertion('entryDN', 'cn=nobody'))).to.equal(122);
        expect(await code(admin, request, assertion('cn', 'person asserted'))).to.equal(0);
      }
      expect(await code(admin, requests[0]!, assertion('cn', 'person asserted'))).to.equal(32);
    });

    it('an assertion tests what a filter of the client may test', async () => {
      const write = modifyOf(ADA, change('replace', 'l', 'x'));
      expect(await code(ada, write, assertion('cn', 'person ada'))).to.equal(0);
      expect(await code(ada, write, assertion('description', 'ada'))).to.equal(122);
      const secret = tlv(0x87, 'userPassword');
      expect(await code(admin, write, control(ControlOid.assertion, secret))).to.equal(122);
      expect(await code(admin, write, control(ControlOid.assertion, tlv(0xa2, secret)))).to.equal(122);
      expect(await code(ada, modifyOf(BOB, change('replace', 'l', 'x')), assertion('cn', 'no'))).to.equal(50);
      expect(await code(ada, modifyOf(DORA, change('replace', 'l', 'x')), assertion('cn', 'no'))).to.equal(32);
      for (const value of [undefined, Buffer.from('x'), Buffer.concat([secret, secret])])
        expect(await code(admin, write, control(ControlOid.assertion, value))).to.equal(2);
    });

    it('each writer is told the entry as it has written it', async () => {
      await does(
        admin,
        addOf('counted', {
          employeeNumber: '0',
          gidNumber: '0',
          objectClass: ['inetOrgPerson', 'posixAccount'],
          uidNumber: '1',
          homeDirectory: '/',
        }),
      );
      const dn = personDn('counted');
      const clients = await Promise.all(Array.from({ length: 4 }, () => bound(ADMIN.dn, ADMIN.password)));
      const told = await Promise.all(
        Array.from({ length: 24 }, async (_, i) => {
          const write = modifyOf(dn, change('increment', 'gidNumber', '1'));
          const answer = await does(clients[i % 4]!, write, preRead('gidNumber'), postRead('gidNumber'));
          const [before, after] = [ControlOid.preRead, ControlOid.postRead].map((oid) => linesIn(answer, oid)![1]!);
          const number = Number(after!.split(': ')[1]);
          expect(before).to.equal(`gidNumber: ${number - 1}`);
          return number;
        }),
      );
      expect(told.sort((a, b) => a - b)).to.deep.equal(Array.from({ length: 24 }, (_, i) => i + 1));
      // Test and set: of those that assert one value one succeeds.
      for (let round = 0; round < 3; round++) {
        const write = modifyOf(dn, change('replace', 'employeeNumber', `${round + 1}`));
        const codes = await Promise.all(
          clients.map((client) => code(client, write, assertion('employeeNumber', `${round}`))),
        );
        expect(codes.sort((a, b) => a - b)).to.deep.equal([0, 122, 122, 122]);
      }
      for (const client of clients) client.close();
      await does(admin, { op: 'delete', dn });
    });

    it('permissive modify adds what is there, and deletes what is not', async () => {
      const changes = [
        change('add', 'cn', 'PERSON ada', 'Ada', 'ada'),
        change('delete', 'sn', 'nobody'),
        change('delete', 'l', 'nowhere'),
        change('delete', 'street'),
      ];
      for (const one of changes) expect(await code(admin, modifyOf(ADA, one))).to.be.oneOf([16, 20]);
      const write = modifyOf(ADA, ...changes);
      expect(await code(admin, write, { ...PERMISSIVE, critical: false })).to.equal(0);
      expect(await code(admin, write, PERMISSIVE)).to.equal(0);
      expect(await found(admin, ADA, 'cn', 'sn')).to.deep.equal([`dn: ${ADA}`, 'cn: Ada', 'cn: Person ada', 'sn: ada']);
      expect(await code(admin, modifyOf(ADA, change('delete', 'sn')), PERMISSIVE)).to.equal(65);
      const password = [change('delete', 'userPassword', 'wrong'), change('add', 'userPassword', 'another one')];
      expect(await code(ada, modifyOf(ADA, ...password), PERMISSIVE)).to.equal(16);
      expect(await code(admin, addOf('x'), PERMISSIVE)).to.equal(12);
    });

    it('no-op checks all, and changes nothing', async () => {
      const requests: [Request, Request, number][] = [
        [addOf('noop', { userPassword: 'some words' }), addOf('ada'), 68],
        [modifyOf(ADA, change('replace', 'l', 'noop')), modifyOf(ADA, change('delete', 'sn')), 65],
        [renameOf(ADA, 'uid=noop'), renameOf(ADA, 'uid=bob'), 68],
        [{ op: 'delete', dn: ADA }, { op: 'delete', dn: PEOPLE }, 66],
        [
          modifyOf(ADA, change('replace', 'userPassword', 'pw2')),
          modifyOf(personDn('no'), change('add', 'l', 'x')),
          32,
        ],
      ];
      const before = await admin.search(SUFFIX, { scope: 'sub', attributes: ['*', '+'] });
      for (const [good, bad, expected] of requests) {
        for (const critical of [true, false]) {
          const answer = await admin.request(
            good,
            [{ ...NO_OP, critical }, postRead('*')].slice(0, good.op === 'delete' ? 1 : 2),
          );
          expect(answer.code).to.equal(16654);
          expect(answer.controls.filter(({ oid }) => oid === ControlOid.postRead)).to.deep.equal([]);
        }
        expect(await code(admin, bad, NO_OP)).to.equal(expected);
        expect(
          await code(
            ada,
            good.op === 'add' ? { ...good, dn: `uid=noop,${SUFFIX}` } : ({ ...good, dn: BOB } as Request),
            NO_OP,
          ),
        ).to.equal(50);
      }
      const after = await admin.search(SUFFIX, { scope: 'sub', attributes: ['*', '+'] });
      expect(after.entries.map(linesOf)).to.deep.equal(before.entries.map(linesOf));
      expect(await code(admin, modifyOf(ADA, change('replace', 'l', 'x')), NO_OP, assertion('cn', 'no'))).to.equal(122);
    });

    it('relaxed rules let the administrator set times and names', async () => {
      const set = {
        createTimestamp: '20010203040506Z',
        creatorsName: 'cn=a',
        modifyTimestamp: '20020203040506Z',
        modifiersName: 'cn=b',
        entryUUID: '0a0b0c0d-0102-4304-8506-0708090a0b0c',
      };
      const lines = Object.entries(set)
        .map(([name, value]) => `${name}: ${value}`)
        .sort();
      const dn = personDn('relaxed');
      expect(await code(admin, addOf('relaxed', set))).to.equal(19);
      expect(await code(ada, addOf('relaxed', set), RELAX)).to.equal(50);
      await does(admin, addOf('relaxed', set), RELAX);
      expect(await found(admin, dn, ...Object.keys(set))).to.deep.equal([`dn: ${dn}`, ...lines]);
      const { entryUUID, ...others } = set;
      const changes = Object.keys(others).map((name) =>
        change('replace', name, name.endsWith('Name') ? 'cn=c' : '20030203040506Z'),
      );
      expect(await code(admin, modifyOf(dn, ...changes))).to.equal(19);
      await does(admin, modifyOf(dn, ...changes), { ...RELAX, critical: false });
      expect((await found(admin, dn, ...Object.keys(others)))!.join()).to.match(/(.*(cn=c|2003)){4}/);
      await does(admin, modifyOf(dn, change('replace', 'l', 'x')), RELAX);
      expect((await found(admin, dn, ...Object.keys(others)))!.join())
        .to.match(/(.*(cn=c|2003)){2}/)
        .and.include(`modifiersName: ${ADMIN.dn}`);
      for (const bad of [
        change('replace', 'entryUUID', entryUUID),
        change('replace', 'createTimestamp'),
        change('delete', 'creatorsName'),
        change('replace', 'entryCSN', '20030203040506.000000Z#000000#000#000000'),
        change('replace', 'structuralObjectClass', 'person'),
      ])
        expect(await code(admin, modifyOf(dn, bad), RELAX), bad.attribute.type).to.equal(19);
      expect(await code(admin, modifyOf(dn, change('replace', 'createTimestamp', 'x')), RELAX)).to.equal(21);
      expect(await code(admin, { op: 'delete', dn }, RELAX)).to.equal(12);
      await does(admin, { op: 'delete', dn }, { ...RELAX, critical: false });
    });

    describe('proxied authorization', () => {
      const whoIs = async (client: RawClient, authzId: string): Promise<string | number> => {
        const answer = await client.request(WHO_AM_I, [as(authzId)]);
        return answer.code === 0 ? (answer.final as { value?: Buffer }).value!.toString() : answer.code;
      };

      it('is for the administrator, and for whom the right proxy is given', async () => {
        for (const client of [admin, app])
          for (const authzId of [`dn:${ADA}`, `DN:${ADA.toUpperCase()}`, 'u:ada'])
            expect(await whoIs(client, authzId)).to.equal(`dn:${ADA}`);
        for (const client of [admin, app])
          for (const nobody of ['', 'dn:', 'dn: ']) expect(await whoIs(client, nobody)).to.equal('');
        expect(await whoIs(admin, `dn:${BOB}`)).to.equal(`dn:${BOB}`);
        expect(await whoIs(admin, `dn:${ADMIN.dn}`)).to.equal(`dn:${ADMIN.dn}`);
        for (const other of [
          `dn:${BOB}`,
          'u:bob',
          `dn:${ADMIN.dn}`,
          `dn:${personDn('nobody')}`,
          'u:nobody',
          'dn:x',
          `dn:${DORA}`,
          `dn:${SUFFIX}`,
        ])
          expect(await whoIs(app, other), other).to.equal(123);
        const anonymous = await RawClient.open(server.port);
        for (const client of [ada, anonymous])
          for (const any of [`dn:${ADA}`, '']) expect(await whoIs(client, any)).to.equal(123);
        anonymous.close();
      });

      it('has to be critical and well-formed', async () => {
        for (const bad of [
          { ...as(`dn:${ADA}`), critical: false },
          as(ADA),
          as('x:y'),
          control(ControlOid.proxiedAuthorization),
        ])
          expect(await code(admin, WHO_AM_I, bad)).to.equal(2);
        expect(
          await code(admin, { op: 'extended', oid: ExtendedOid.startTls, value: undefined }, as(`dn:${ADA}`)),
        ).to.equal(12);
      });

      it('gives the rights of the other, and no more, for one operation', async () => {
        const own = modifyOf(ADA, change('replace', 'l', 'by app'));
        expect(await code(app, own)).to.equal(50);
        await does(app, own, as('u:ada'));
        expect(await found(admin, ADA, 'modifiersName')).to.deep.equal([`dn: ${ADA}`, `modifiersName: ${ADA}`]);
        expect(await code(app, modifyOf(APP, change('replace', 'l', 'x')), as('u:ada'))).to.equal(50);
        expect(await code(admin, modifyOf(BOB, change('replace', 'l', 'x')), as('u:ada'))).to.equal(50);
        expect((await app.search(DORA)).code).to.equal(32);
        expect((await admin.search(DORA, {}, [as(`dn:${ADA}`)])).code).to.equal(32);
        expect((await admin.search(DORA, {}, [as(`dn:${DORA}`)])).entries).to.have.length(1);
        expect((await admin.search(ADA, {}, [as('')])).code).to.equal(50);
        expect(await code(admin, compareOf(ADA, 'description', 'ada'), as('u:ada'))).to.equal(50);
        expect(await code(app, addOf('proxied'))).to.equal(50);
        const added = await does(app, addOf('proxied'), as('u:ada'), postRead('creatorsName'));
        expect(linesIn(added, ControlOid.postRead)).to.include(`creatorsName: ${ADA}`);
        expect(await code(admin, { op: 'delete', dn: personDn('proxied') }, as('u:ada'))).to.equal(50);
        await does(admin, { op: 'delete', dn: personDn('proxied') }, as(`dn:${ADMIN.dn}`));
        // A request of many elements is refused before it is decoded, by the rights of the client alone.
        const many = addOf('many', { telephoneNumber: Array.from({ length: 1200 }, (_, n) => `${n}`) });
        expect(await code(ada, { ...many, dn: `uid=many,${SUFFIX}` } as Request)).to.equal(50);
        expect(await code(app, many)).to.equal(50);
        await does(app, many, as('u:ada'));
        await does(admin, { op: 'delete', dn: personDn('many') });
        expect(await whoIs(app, 'u:ada')).to.equal(`dn:${ADA}`);
        expect((await app.request(WHO_AM_I)).final)
          .to.have.property('value')
          .that.deep.equals(Buffer.from(`dn:${APP}`));
      });

      it('keeps to the policies of the other, and is none of a locked account', async () => {
        const policy = {
          objectClass: ['device', 'pwdPolicy'],
          cn: 'policy',
          pwdAttribute: 'userPassword',
          pwdMinLength: '8',
          pwdCheckQuality: '2',
          pwdMustChange: 'TRUE',
          pwdLockout: 'TRUE',
        };
        await does(admin, { op: 'add', dn: POLICY, attributes: attributes(policy) });
        await does(admin, addOf('kept', { userPassword: 'first words' }));
        const dn = personDn('kept');
        const set = (password: string) => modifyOf(dn, change('replace', 'userPassword', password));
        expect(await code(app, set('short'), as('u:kept'))).to.equal(19);
        await does(app, set('longer words'), as('u:kept'));
        (await bound(dn, 'longer words')).close();
        await does(admin, modifyOf(dn, change('replace', 'pwdReset', 'TRUE')));
        expect(await code(app, searchRequest(dn), as('u:kept'))).to.equal(50);
        await does(admin, modifyOf(dn, change('replace', 'pwdReset', 'FALSE')));
        await does(app, searchRequest(dn), as('u:kept'));
        await does(admin, modifyOf(dn, change('replace', 'pwdAccountLockedTime', '000001010000Z')));
        expect(await code(app, searchRequest(dn), as('u:kept'))).to.equal(123);
        for (const gone of [dn, POLICY]) await does(admin, { op: 'delete', dn: gone });
      });
    });

    it('go together, and fail as one', async () => {
      const write = modifyOf(ADA, change('replace', 'l', 'together'));
      for (const critical of [true, false]) {
        const controls = [
          { ...assertion('cn', 'person ada'), critical },
          { ...postRead('l', 'title', 'modifiersName'), critical },
        ];
        const answer = await does(app, write, as('u:ada'), ...controls);
        expect(linesIn(answer, ControlOid.postRead)).to.deep.equal([
          `dn: ${ADA}`,
          'l: together',
          `modifiersName: ${ADA}`,
        ]);
        expect(await code(app, write, as('u:bob'), ...controls)).to.equal(123);
        expect(await code(app, write, as('u:ada'), { ...assertion('description', 'ada'), critical })).to.equal(122);
      }
      const renamed = await does(
        app,
        renameOf(ADA, 'uid=ada2'),
        as('u:ada'),
        assertion('uid', 'ada'),
        preRead('uid'),
        postRead('uid'),
      );
      expect(linesIn(renamed, ControlOid.postRead)).to.deep.equal([`dn: ${personDn('ada2')}`, 'uid: ada2']);
      await does(admin, renameOf(personDn('ada2'), 'uid=ada'));
      const added = await does(app, addOf('one'), as('u:ada'), assertion('uid', 'one'), postRead('uid'));
      expect(linesIn(added, ControlOid.postRead)).to.deep.equal([`dn: ${personDn('one')}`, 'uid: one']);
      const deleted = await does(
        admin,
        { op: 'delete', dn: personDn('one') },
        as(`dn:${ADMIN.dn}`),
        assertion('uid', 'one'),
        preRead('uid'),
      );
      expect(linesIn(deleted, ControlOid.preRead)).to.deep.equal([`dn: ${personDn('one')}`, 'uid: one']);
      expect(await code(app, compareOf(ADA, 'uid', 'ada'), as('u:ada'), assertion('uid', 'ada'))).to.equal(6);
      await does(app, searchRequest(ADA), as('u:ada'), assertion('uid', 'ada'));
    });

    it('what does not go with an operation is refused when it is critical', async () => {
      const wrong: [Request, Control][] = [
        [addOf('x'), preRead()],
        [{ op: 'delete', dn: personDn('x') }, postRead()],
        [searchRequest(ADA), preRead()],
        [searchRequest(ADA), NO_OP],
        [compareOf(ADA, 'uid', 'ada'), postRead()],
        [modifyOf(ADA, change('replace', 'l', 'x')), control(ControlOid.dontUseCopy)],
        [WHO_AM_I, assertion('uid', 'ada')],
      ];
      for (const [request, one] of wrong) expect(await code(admin, request, one)).to.equal(12);
      for (const [request, one] of wrong.slice(1))
        expect(await code(admin, request, { ...one, critical: false })).to.not.equal(12);
      expect(await code(admin, searchRequest(ADA), control(ControlOid.dontUseCopy))).to.equal(0);
      for (const oid of [ControlOid.preRead, ControlOid.noOp]) {
        const malformed = control(oid, Buffer.from('x'));
        expect(await code(admin, modifyOf(ADA, change('replace', 'l', 'x')), malformed)).to.equal(2);
      }
    });
  });
}
