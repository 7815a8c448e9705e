import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import type { Partition } from '../../src/partition/index.js';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  PEOPLE,
  personDn,
  type Running,
  SUFFIX,
  start,
} from '../server/directory.js';
import { type Answer, RawClient, searchRequest } from '../server/raw-client.js';
import { faulty } from '../store/faulty.js';

const READ = '- { name: users read, who: { users: true }, allow: [view] }\n';
const ALL = { scope: 'one', filter: { type: 'present', attribute: 'uid' } } as const;
const UNINDEXED = { scope: 'one', filter: { type: 'present', attribute: 'description' } } as const;
const PERSONS = 40;

describe('access rules in force', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-rules-'));
  const path = join(folder, 'socket');
  const clients: RawClient[] = [];
  let partition: Partition;
  let running: Running;
  /** How long a read of the store in a scan takes, in ms. */
  let delay: number | undefined;

  before(async () => {
    const store = faulty(openMemoryStore(), ({ at }) =>
      at === 'scan' && delay !== undefined ? { do: 'delay', ms: delay } : undefined,
    );
    partition = await emptyPartition(store);
    await fill(partition, PERSONS);
    const listen = ['ldap://127.0.0.1:0', `ldapi://${encodeURIComponent(path)}`];
    running = await start({ ...CHEAP, listen }, 0, partition);
  });
  afterEach(() => {
    delay = undefined;
    for (const client of clients.splice(0)) client.close();
  });
  after(async () => {
    await running.stop();
    await partition.close();
    rmSync(folder, { recursive: true });
  });

  const inForce = (text: string) => partition.setAccess(text, ADMIN.dn, partition.accessVersion);

  /** The n-th person; undefined: nobody. */
  async function as(n: number | undefined, way: 'tcp' | 'ldapi' = 'tcp'): Promise<RawClient> {
    const client = way === 'tcp' ? await RawClient.open(running.port) : await local();
    clients.push(client);
    if (n !== undefined) expect(await client.bind(personDn(`p${n}`), `secret-${n}`)).to.equal(0);
    return client;
  }

  async function local(): Promise<RawClient> {
    const socket = connect(path);
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  function change(client: RawClient, n: number, type: string, ...values: string[]): Promise<Answer> {
    const attribute = { type, values: values.map((value) => Buffer.from(value)) };
    return client.request({ op: 'modify', dn: personDn(`p${n}`), changes: [{ operation: 'replace', attribute }] });
  }

  const read = (client: RawClient, n: number, ...names: string[]) =>
    client.search(personDn(`p${n}`), { attributes: names }).then(({ code, entries }) => {
      return [code, ...entries.flatMap(({ attributes: all }) => [...all.keys()])];
    });

  const count = (answer: Answer) => [answer.code, answer.entries.length];

  it('passwords are sent in the clear only where a rule says strength: 0', async () => {
    const item = (name: string, n: number, who = '') =>
      `- { name: ${name}, who: { users: true${who} }, to: { base: "${personDn(`p${n}`)}", attributes: [userPassword] }, allow: [read] }\n`;
    await inForce(
      `rules:\n${READ}${item('in the clear', 1, ', strength: 0')}${item('plain', 2)}${item('strong', 3, ', strength: 1')}`,
    );
    const clear = await as(0);
    const machine = await as(0, 'ldapi');
    for (const [n, given] of [
      [1, true],
      [2, false],
      [3, false],
      [4, false],
    ] as const) {
      const withPassword = (is: boolean) => [0, 'uid', ...(is ? ['userPassword'] : [])];
      expect(await read(clear, n, 'uid', 'userPassword'), `${n}`).to.have.members(withPassword(given));
      expect(await read(machine, n, 'uid', 'userPassword'), `${n}`).to.have.members(withPassword(n < 4));
    }
  });

  it('a refusal names the missing right and the attribute, and no rule', async () => {
    await inForce(`rules:\n${READ}- { name: own, who: { self: true }, to: { attributes: [mobile, entry, cn] }, allow: [write, rename] }
- { name: secretive, who: { users: true }, to: { attributes: [title] }, deny: [compare] }
- { name: makers, who: { attribute: seeAlso }, allow: [remove, create, moveOut, moveIn, add] }\n`);
    const client = await as(0);
    const other = personDn('p1');
    const rename = { op: 'modifyDN', dn: other, newRdn: 'uid=x', deleteOldRdn: false } as const;
    const moved = { ...rename, dn: personDn('p0'), newRdn: 'uid=p0', newSuperior: SUFFIX };
    const person = attributes({ objectClass: 'person', cn: 'x', sn: 'x' });
    for (const [request, right] of [
      [
        { op: 'modify', dn: other, changes: [{ operation: 'replace', attribute: attributes({ mobile: '1' })[0]! }] },
        "'replace' on attribute 'mobile'",
      ],
      [
        { op: 'modify', dn: other, changes: [{ operation: 'add', attribute: attributes({ title: 'x' })[0]! }] },
        "'add' on attribute 'title'",
      ],
      [{ op: 'compare', dn: other, attribute: 'title', value: Buffer.from('x') }, "'compare' on attribute 'title'"],
      [{ op: 'delete', dn: other }, "'remove' of"],
      [{ op: 'add', dn: `cn=x,${PEOPLE}`, attributes: person }, "'create' below"],
      [{ ...rename, newSuperior: undefined }, "'rename' of"],
      [moved, "'moveOut' of"],
    ] as const) {
      const { code, final } = await client.request(request);
      expect(code, right).to.equal(50);
      expect(final.message).to.include(`this needs the right ${right}`);
      expect(final.message).not.to.match(/\b(?:own|secretive|makers|users read)\b/);
    }
  });

  it('the preset self-service lets users read, and change the listed attributes of their own entries', async () => {
    await inForce(PRESETS['self-service'].replace('        - sshPublicKey\n', ''));
    const client = await as(0);
    expect(await read(client, 1, 'mail')).to.deep.equal([0, 'mail']);
    for (const type of ['telephoneNumber', 'mobile', 'jpegPhoto', 'labeledURI', 'postalAddress', 'preferredLanguage']) {
      expect((await change(client, 0, type, 'en')).code, type).to.equal(0);
      expect((await change(client, 1, type, 'en')).code, type).to.equal(50);
    }
    for (const type of ['employeeNumber', 'mail', 'cn']) expect((await change(client, 0, type, 'x')).code).to.equal(50);
    expect((await change(client, 0, 'userPassword', 'secret-0')).code).to.equal(0);
    expect((await (await as(undefined)).search(PEOPLE)).code).to.equal(50);
  });

  it('the preset closed lets users bind and read their own entries only', async () => {
    await inForce(PRESETS.closed);
    const client = await as(1);
    expect(await read(client, 1, 'mail', 'userPassword')).to.deep.equal([0, 'mail']);
    for (const base of [personDn('p2'), PEOPLE, SUFFIX]) expect((await client.search(base)).code, base).to.equal(32);
    expect((await change(client, 1, 'mobile', '1')).code).to.equal(50);
    expect((await change(client, 2, 'userPassword', 'x')).code).to.be.oneOf([32, 50]);
    expect((await client.request({ op: 'delete', dn: personDn('p1') })).code).to.equal(50);
    expect((await change(client, 1, 'userPassword', 'secret-1')).code).to.equal(0);
    expect((await (await as(undefined)).search(personDn('p1'))).code).to.equal(50);
  });

  describe('limits in access rules', () => {
    /** For p0, for p1 by way of a group; others have the settings'. */
    const limited = (limits: string, more = '') =>
      inForce(`rules:\n${READ}limits:\n- { who: { dn: "${personDn('p0')}" }, ${limits} }\n${more}`);

    it("the widest size limit of a client's rules applies, and a group may have more", async () => {
      const group = `cn=services,${SUFFIX}`;
      const members = attributes({ objectClass: 'groupOfNames', cn: 'services', member: personDn('p1') });
      await partition.add(partition.schema.parseDn(group), members, ADMIN);
      await limited(
        'sizeLimit: 3',
        `- { who: { users: true }, sizeLimit: 5 }\n- { who: { group: "${group}" }, sizeLimit: 0 }\n`,
      );
      expect(count(await (await as(0)).search(PEOPLE, ALL))).to.deep.equal([4, 5]);
      expect(count(await (await as(1)).search(PEOPLE, ALL))).to.deep.equal([0, PERSONS]);
      await limited('sizeLimit: 3');
      expect(count(await (await as(0)).search(PEOPLE, { ...ALL, sizeLimit: 30 }))).to.deep.equal([4, 3]);
      expect(count(await (await as(2)).search(PEOPLE, ALL))).to.deep.equal([0, PERSONS]);
    });

    it('a time limit in access rules ends a search', async () => {
      await limited('timeLimit: 1 s');
      const [first, second] = [await as(0), await as(2)];
      delay = 1100;
      expect((await first.search(PEOPLE, UNINDEXED)).code).to.equal(3);
      expect((await second.search(PEOPLE, UNINDEXED)).code).to.equal(0);
    });

    it('a look limit in access rules ends a search', async () => {
      await limited('lookLimit: 5');
      expect((await (await as(0)).search(PEOPLE, UNINDEXED)).code).to.equal(11);
      expect((await (await as(2)).search(PEOPLE, UNINDEXED)).code).to.equal(0);
    });

    it('a page size limit in access rules bounds pages', async () => {
      await limited('pageSize: 4');
      const value = encodePagedResults({ size: 30, cookie: Buffer.alloc(0) });
      const paged = [{ oid: ControlOid.pagedResults, critical: true, value }];
      for (const [n, most] of [
        [0, 4],
        [2, 30],
      ] as const) {
        const answer = await (await as(n)).search(PEOPLE, ALL, paged);
        expect(count(answer)).to.deep.equal([0, most]);
        expect(decodePagedResults(answer.controls[0]!.value).cookie.length).to.be.greaterThan(0);
      }
    });

    it('with a limit of one request in flight a quick request waits for a slow request', async () => {
      await limited('inFlight: 1');
      for (const [n, first] of [
        [0, 'slow'],
        [2, 'quick'],
      ] as const) {
        const client = await as(n);
        await client.search(PEOPLE);
        delay = 100;
        const [slow, quick] = client.sendTogether([searchRequest(PEOPLE, UNINDEXED), searchRequest(PEOPLE)]);
        const answered = [slow, quick].map((id, i) => client.answer(id!).then(() => ['slow', 'quick'][i]));
        expect(await Promise.race(answered), `p${n}`).to.equal(first);
        await Promise.all(answered);
        delay = undefined;
      }
    });
  });
});
