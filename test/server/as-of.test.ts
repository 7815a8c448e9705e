import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import type { Control } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { change } from '../partition/fixture.js';
import {
  ADMIN,
  addPerson,
  emptyPartition,
  fill,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient } from './raw-client.js';

const ACTOR = { dn: ADMIN.dn };
const RULES = `rules:
  - name: nobody reads the room
    who: {}
    to: { attributes: [roomNumber] }
    deny: [view]
  - name: users read the rest
    who: { users: true }
    allow: [view]
`;

function asOf(time: string): Control {
  return { oid: ControlOid.asOf, critical: true, value: Buffer.from(time) };
}

describe('server: search as of a moment', () => {
  let running: Running;
  let client: RawClient;
  let at: string;

  before(async () => {
    const partition = await emptyPartition(undefined, RULES);
    await fill(partition, 1);
    running = await start({}, 0, partition);
    const dn = testSchema().parseDn(personDn('ann'));
    await addPerson(partition, 'ann', { roomNumber: '7', title: 'boss' });
    const moment = Date.now();
    at = new Date(moment).toISOString().replaceAll(/[-:T]/g, '');
    while (Date.now() <= moment);
    await partition.modify(dn, [change('replace', 'roomNumber', '8'), change('replace', 'title', 'clerk')], ACTOR);
    await partition.rename(dn, { newRdn: 'uid=anna', deleteOldRdn: true, newSuperior: undefined }, ACTOR);
    client = await RawClient.open(running.port);
  });
  after(async () => {
    client.close();
    await running.stop();
    await running.partition.close();
  });

  async function found(filter: string, control = asOf(at)): Promise<[number, ...string[]]> {
    const { code, entries } = await client.search(SUFFIX, { scope: 'sub', filter: parseFilter(filter) }, [control]);
    return [code, ...entries.map(({ dn, attributes }) => `${dn} ${attributes.get('roomNumber') ?? 'no room'}`)];
  }

  it('finds entries by the names and values of the moment', async () => {
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    expect(await found('(title=boss)')).to.deep.equal([0, `${personDn('ann')} 7`]);
    expect(await found('(title=clerk)')).to.deep.equal([0]);
    expect(await found('(uid=p0)')).to.deep.equal([0, `${personDn('p0')} no room`]);
  });

  it('gives the rights of today', async () => {
    expect(await client.bind(personDn('p0'), 'secret-0')).to.equal(0);
    expect(await found('(title=boss)')).to.deep.equal([0, `${personDn('ann')} no room`]);
    expect(await found('(roomNumber=7)')).to.deep.equal([0]);
  });

  it('gives the rights that the client has when it is sent entries', async () => {
    const { partition } = running;
    expect(await client.bind(personDn('p0'), 'secret-0')).to.equal(0);
    const searches = Array.from({ length: 20 }, () => found('(title=boss)'));
    const setting = partition.setAccess('rules: []\n', ADMIN.dn, partition.accessVersion);
    const answers = await Promise.all(searches);
    await setting;
    const codes = new Set([...answers, await found('(title=boss)')].map(([code]) => code));
    expect([...codes].filter((code) => ![0, 32, 50, 51].includes(code))).to.deep.equal([]);
    expect((await found('(title=boss)')).length).to.equal(1);
    await partition.setAccess(RULES, ADMIN.dn, partition.accessVersion);
  });

  it('ends a search whose client has gone or whose time is over, and goes on with the next', async () => {
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const leaver = await RawClient.open(running.port);
    expect(await leaver.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const left = Array.from({ length: 20 }, () =>
      leaver.search(SUFFIX, { scope: 'sub', filter: parseFilter('(title=boss)') }, [asOf(at)]).catch(() => undefined),
    );
    leaver.close();
    expect(await found('(title=boss)')).to.deep.equal([0, `${personDn('ann')} 7`]);
    await Promise.all(left);
  });

  it('does not go with controls that follow changes', async () => {
    const sync = { oid: ControlOid.syncRequest, critical: true, value: Buffer.from('30030a0101', 'hex') };
    const { code } = await client.search(SUFFIX, { scope: 'sub' }, [asOf(at), sync]);
    expect(code).to.equal(53);
  });

  it('refuses a time that is none, and one before the first change record', async () => {
    expect(await found('(uid=p0)', asOf('yesterday'))).to.deep.equal([2]);
    expect(await found('(uid=p0)', asOf('20200101000000Z'))).to.deep.equal([53]);
  });
});
