import { expect } from 'chai';
import { writeSequence } from '../../src/protocol/asn1.js';
import type { Control } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { BOOLEAN, INTEGER } from '../../src/protocol/tags.js';
import { str, tlv } from '../protocol/bytes.js';
import { ADMIN, addPerson, attributes, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { type Answer, RawClient, searchRequest } from './raw-client.js';

/** p0 deletes below ou=people: not uid=kept, and does not see uid=hidden. */
const RULES = `
rules:
  - { name: reader, who: { dn: "${personDn('p0')}" }, to: { subtree: "${SUFFIX}" }, allow: [view] }
  - { name: remover, who: { dn: "${personDn('p0')}" }, to: { subtree: "${PEOPLE}" }, allow: [remove] }
  - { name: kept, who: { dn: "${personDn('p0')}" }, to: { filter: "(uid=kept)" }, deny: [remove] }
  - { name: hidden, who: { dn: "${personDn('p0')}" }, to: { filter: "(uid=hidden)" }, deny: [view] }
`;

describe('server: tree delete', () => {
  let running: Running;
  let admin: RawClient;
  let user: RawClient;

  beforeEach(async () => {
    running = await start({}, 1, undefined, RULES);
    [admin, user] = [await RawClient.open(running.port), await RawClient.open(running.port)];
    await admin.bind(ADMIN.dn, ADMIN.password);
    await user.bind(personDn('p0'), 'secret-0');
    for (const ou of ['one', 'two']) {
      const unit = attributes({ objectClass: 'organizationalUnit', ou });
      expect((await admin.request({ op: 'add', dn: `ou=${ou},${PEOPLE}`, attributes: unit })).code).to.equal(0);
    }
    await add('a', 'one');
    await add('b', 'two');
  });
  afterEach(async () => {
    for (const client of [admin, user]) client.close();
    await running.stop();
  });

  async function add(uid: string, ou: string): Promise<void> {
    const person = attributes({ objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid });
    const answer = await admin.request({ op: 'add', dn: `uid=${uid},ou=${ou},${PEOPLE}`, attributes: person });
    expect(answer.code).to.equal(0);
  }

  function deleteTree(client: RawClient, dn: string, critical: boolean): Promise<Answer> {
    return client.request({ op: 'delete', dn }, [{ oid: ControlOid.treeDelete, critical, value: undefined }]);
  }

  it('needs the control, critical or not, and no value', async () => {
    expect((await admin.request({ op: 'delete', dn: `ou=one,${PEOPLE}` })).code).to.equal(66);
    const value: Control = { oid: ControlOid.treeDelete, critical: false, value: Buffer.from('x') };
    expect((await admin.request({ op: 'delete', dn: `ou=one,${PEOPLE}` }, [value])).code).to.equal(2);
    const ill = [{ oid: ControlOid.treeDelete, critical: true, value: undefined }];
    expect((await admin.request(searchRequest(PEOPLE), ill)).code).to.equal(12);
    expect((await deleteTree(admin, `ou=one,${PEOPLE}`, true)).code).to.equal(0);
    expect((await deleteTree(admin, `ou=two,${PEOPLE}`, false)).code).to.equal(0);
    const left = await admin.search(PEOPLE, { scope: 'sub' });
    expect(left.entries.map(({ dn }) => dn)).to.deep.equal([PEOPLE, personDn('p0')]);
    expect((await deleteTree(admin, '', true)).code).to.equal(53);
    expect((await deleteTree(admin, 'cn=Monitor', true)).code).to.equal(53);
  });

  it('refuses the whole tree for one entry without the right, or out of sight, and names none', async () => {
    await add('kept', 'one');
    await add('hidden', 'two');
    for (const ou of ['one', 'two']) {
      const { code, final } = await deleteTree(user, `ou=${ou},${PEOPLE}`, true);
      expect(code).to.equal(50);
      expect(final.message + final.matchedDN).to.not.match(/kept|hidden/);
    }
    expect((await admin.search(PEOPLE, { scope: 'sub' })).entries).to.have.length(8);
    await admin.request({ op: 'delete', dn: `uid=kept,ou=one,${PEOPLE}` });
    expect((await deleteTree(user, `ou=one,${PEOPLE}`, true)).code).to.equal(0);
    expect((await deleteTree(user, `uid=hidden,ou=two,${PEOPLE}`, true)).code).to.equal(32);
    expect((await deleteTree(user, SUFFIX, true)).code).to.equal(50);
  });

  it('goes with an assertion, a pre-read and no-op', async () => {
    const top = `ou=one,${PEOPLE}`;
    const tree = { oid: ControlOid.treeDelete, critical: true, value: undefined };
    const assertion = (ou: string) => ({
      oid: ControlOid.assertion,
      critical: true,
      value: tlv(0xa3, str('ou'), str(ou)),
    });
    const preRead = tlv(0x30, str('ou'));
    const noOp = { oid: ControlOid.noOp, critical: true, value: undefined };
    expect((await admin.request({ op: 'delete', dn: top }, [tree, assertion('two')])).code).to.equal(122);
    expect((await admin.request({ op: 'delete', dn: top }, [tree, noOp])).code).to.equal(16654);
    expect((await admin.search(top, { scope: 'sub' })).entries).to.have.length(2);
    const controls = [tree, assertion('one'), { oid: ControlOid.preRead, critical: true, value: preRead }];
    const answer = await admin.request({ op: 'delete', dn: top }, controls);
    expect([answer.code, answer.controls.map(({ oid }) => oid)]).to.deep.equal([0, [ControlOid.preRead]]);
    expect((await admin.search(top)).code).to.equal(32);
  });

  it('a persistent search tells of each entry, and a session of a deleted entry ends', async () => {
    await addPerson(running.partition, 'gone', { userPassword: 'secret' });
    const watching = await RawClient.open(running.port);
    await watching.bind(ADMIN.dn, ADMIN.password);
    const value = writeSequence((writer) => {
      writer.integer(INTEGER, 2);
      writer.boolean(BOOLEAN, true);
      writer.boolean(BOOLEAN, false);
    });
    const id = watching.send(searchRequest(SUFFIX, { scope: 'sub' }), [
      { oid: ControlOid.persistentSearch, critical: true, value },
    ]);
    await watching.search('');
    expect((await deleteTree(admin, PEOPLE, true)).code).to.equal(0);
    const told: string[] = [];
    while (told.at(-1) !== PEOPLE) {
      const message = await watching.take(id);
      if (message?.response.op === 'searchEntry') told.push(message.response.dn);
    }
    expect(told.sort()).to.deep.equal(
      [
        PEOPLE,
        personDn('p0'),
        personDn('gone'),
        ...['one', 'two'].map((ou) => `ou=${ou},${PEOPLE}`),
        `uid=a,ou=one,${PEOPLE}`,
        `uid=b,ou=two,${PEOPLE}`,
      ].sort(),
    );
    user.send(searchRequest(SUFFIX));
    expect((await user.notice())?.code).to.equal(8);
    watching.close();
  });
});
