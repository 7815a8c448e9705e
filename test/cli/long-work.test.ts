import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import type { Filter, Modification } from '../../src/ldap/ldap-types.js';
import { encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import { encodeRequest } from '../../src/protocol/encode.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { encodeCancel, encodePasswordModify } from '../protocol/client-values.js';
import { Random } from '../protocol/random.js';
import { attributes } from '../server/directory.js';
import { type Answer, RawClient, searchRequest } from '../server/raw-client.js';
import {
  ADA,
  ADMIN,
  exited,
  heard,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowanDoes,
  Sandbox,
  SUFFIX,
  serve,
} from './rowan.js';

const GROUP = `cn=all,${SUFFIX}`;
const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 1_000_000);

const member = (n: number): string => `uid=user${n},${PEOPLE}`;
const members = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, i) => member(from + ((i * 7919) % (to - from))));

function addGroup(dn: string, values: readonly string[]): Request {
  const cn = /^cn=([^,]*)/.exec(dn)![1]!;
  return { op: 'add', dn, attributes: attributes({ objectClass: ['groupOfNames'], cn: [cn], member: [...values] }) };
}

function modify(dn: string, ...changes: readonly [Modification['operation'], string, readonly string[]][]): Request {
  return {
    op: 'modify',
    dn,
    changes: changes.map(([operation, type, values]) => ({
      operation,
      attribute: { type, values: values.map((value) => Buffer.from(value)) },
    })),
  };
}

/** More terms than the serving thread takes upon itself. */
const longFilter = (attribute: string, value: string): Filter => ({
  type: 'or',
  filters: Array.from({ length: 1000 }, (_, i) => ({
    type: 'equal',
    attribute,
    value: Buffer.from(i === 500 ? value : `nobody${i}`),
  })),
});

describe('cli: requests that would hold the event loop', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;
  let client: RawClient;
  let other: RawClient;

  before(async () => {
    await sandbox.initSample();
    server = await serve(sandbox.data, [
      '--limits-message-bytes',
      '32MiB',
      '--log-slow-search-rows',
      '2',
      '--shutdown-seconds',
      '600',
    ]);
    [client, other] = [await RawClient.open(server.port), await RawClient.open(server.port)];
    for (const one of [client, other]) expect(await one.bind(ADMIN, PASSWORD)).to.equal(0);
  });
  after(async () => {
    client?.close();
    other?.close();
    await server?.stop();
    await sandbox.remove();
  });

  async function succeeds(request: Request): Promise<void> {
    expect((await client.request(request)).final, request.op).to.deep.include({ code: 0 });
  }

  const equal = (attribute: string, value: string) =>
    ({ type: 'equal', attribute, value: Buffer.from(value) }) as const;

  async function values(dn: string, type: string): Promise<string[]> {
    const { entries } = await client.search(dn);
    return (entries[0]?.attributes.get(type) ?? []).map(String).sort();
  }

  it('a large group is added, searched, changed, renamed and deleted', async () => {
    await succeeds(addGroup(GROUP, members(0, 3000)));
    expect(await values(GROUP, 'member')).to.deep.equal(members(0, 3000).sort());
    const replace = modify(GROUP, ['replace', 'member', members(1500, 4500)]);
    await succeeds(replace);
    const renamed = `cn=everybody,${SUFFIX}`;
    const rename = { op: 'modifyDN', dn: GROUP, newRdn: 'cn=everybody', deleteOldRdn: true } as const;
    await succeeds({ ...rename, newSuperior: undefined });
    expect(await values(renamed, 'member')).to.deep.equal(members(1500, 4500).sort());
    const found = await client.search(SUFFIX, { scope: 'sub', filter: equal('member', member(4499)) });
    expect(found.entries.map(({ dn }) => dn)).to.deep.equal([renamed]);
    await succeeds({ op: 'delete', dn: renamed });
    expect((await client.search(renamed)).code).to.equal(32);
  });

  it('a slow search is told of with the number of its connection, wherever it was done', async () => {
    const said = heard(server.process, '(street=?)');
    for (const filter of [longFilter('description', 'x'), equal('street', 'x')])
      expect((await client.search(SUFFIX, { scope: 'sub', filter })).code).to.equal(0);
    const told = [...(await said).matchAll(/slow search: .* connection=(\d+)/g)].map(([, number]) => number);
    expect(told).to.have.length(2);
    expect(told[0]).to.equal(told[1]);
  });

  it('the answer is seen by the next request of anybody', async () => {
    const dn = `cn=seen,${SUFFIX}`;
    for (let round = 0; round < 5; round++) {
      expect((await client.request(addGroup(dn, members(0, 600)))).code).to.equal(0);
      expect((await other.search(dn)).entries).to.have.length(1);
      expect((await other.request({ op: 'delete', dn })).code).to.equal(0);
    }
  });

  it('many changes of one request come to the same as one request each', async () => {
    const random = new Random(seed);
    const dns = [`cn=together,${SUFFIX}`, `cn=apart,${SUFFIX}`] as const;
    for (const dn of dns) expect((await client.request(addGroup(dn, members(0, 40)))).code).to.equal(0);
    const present = new Set(members(0, 40));
    const changes: [Modification['operation'], string, string[]][] = [];
    for (let i = 0; i < 120; i++) {
      const value = member(random.below(80));
      // Another spelling of the same name.
      const given = random.chance(3) ? value.toUpperCase() : value;
      changes.push([present.has(value) ? 'delete' : 'add', 'member', [given]]);
      if (!present.delete(value)) present.add(value);
    }
    expect((await client.request(modify(dns[0], ...changes))).code, `seed ${seed}`).to.equal(0);
    for (const change of changes) expect((await client.request(modify(dns[1], change))).code).to.equal(0);
    const [together, apart] = [await values(dns[0], 'member'), await values(dns[1], 'member')];
    expect(together, `seed ${seed}`).to.deep.equal(apart);
    expect(together.map((dn) => dn.toLowerCase()).sort()).to.deep.equal(
      [...present].map((dn) => dn.toLowerCase()).sort(),
    );
    const added = members(2000, 2600).map((value): (typeof changes)[number] => ['add', 'member', [value]]);
    const wrong = modify(dns[0], ...added, ['delete', 'member', [member(999)]]);
    expect((await client.request(wrong)).code).to.equal(16);
    expect(await values(dns[0], 'member'), 'all of the changes or none').to.deep.equal(together);
  });

  it('errors are those of small requests', async () => {
    const dn = `cn=wrong,${SUFFIX}`;
    const twice = await client.request(addGroup(dn, [...members(0, 600), member(5).toUpperCase()]));
    expect(twice.final).to.deep.include({ code: 20, message: "value 601 of 'member' equals an earlier one" });
    expect((await client.request(addGroup(dn, [...members(0, 600), 'no name']))).code).to.equal(21);
    const orphan = await client.request(addGroup(`cn=x,ou=none,${PEOPLE}`, members(0, 600)));
    expect(orphan.final).to.deep.include({ code: 32, matchedDN: PEOPLE });
    const anonymous = await RawClient.open(server.port);
    expect((await anonymous.request(addGroup(dn, members(0, 20_000)))).code).to.equal(50);
    anonymous.close();
    expect((await client.search(dn)).code).to.equal(32);
  });

  it('a long message that is none ends the connection, and no other', async () => {
    const values = members(0, 20_000);
    const bytes = encodeRequest({ id: 9, request: addGroup(GROUP, values), controls: [] });
    // The length of the last value leads out of the message.
    bytes[bytes.length - values.at(-1)!.length - 1] = 0x7f;
    const wrong = await RawClient.open(server.port);
    expect(await wrong.bind(ADMIN, PASSWORD)).to.equal(0);
    wrong.write(bytes);
    expect((await wrong.answer(9)).code).to.equal(2);
    expect((await wrong.notice())?.code).to.equal(2);
    await wrong.ended();
    expect((await client.search(ADA)).entries).to.have.length(1);
  });

  it('a long filter finds what it names, page by page too, and its search can be abandoned', async () => {
    const asked = { scope: 'sub', filter: longFilter('uid', 'ada') } as const;
    expect((await client.search(SUFFIX, asked)).entries.map(({ dn }) => dn)).to.deep.equal([ADA]);
    const all = await client.search(SUFFIX, { scope: 'sub', filter: { type: 'not', filter: longFilter('sn', 'x') } });
    const pages: string[] = [];
    let cookie: Buffer = Buffer.alloc(0);
    do {
      const control = { oid: ControlOid.pagedResults, critical: true, value: encodePagedResults({ size: 2, cookie }) };
      const parts = { scope: 'sub', filter: { type: 'not', filter: longFilter('sn', 'x') } } as const;
      const page = await client.search(SUFFIX, parts, [control]);
      expect(page.code).to.equal(0);
      pages.push(...page.entries.map(({ dn }) => dn));
      cookie = cookieOf(page.controls[0]!.value!);
    } while (cookie.length > 0);
    expect(pages.sort()).to.deep.equal(all.entries.map(({ dn }) => dn).sort());
    expect(pages.length).to.be.above(2);
    const search = client.nextId() + 1;
    const ids = client.sendTogether([
      {
        op: 'search',
        base: SUFFIX,
        deref: 'never',
        sizeLimit: 0,
        timeLimit: 0,
        typesOnly: false,
        attributes: [],
        ...asked,
      },
      { op: 'abandon', target: search },
      { op: 'compare', dn: ADA, attribute: 'uid', value: Buffer.from('ada') },
    ]);
    expect((await client.answer(ids[2]!)).code).to.equal(6);
    expect((await client.search(SUFFIX, asked)).entries).to.have.length(1);
    expect(client.hasHeardOf(search), 'an abandoned search is not answered').to.equal(false);
  });

  it('large values come from the other thread too', async () => {
    const dn = `uid=pictured,${PEOPLE}`;
    const photo = Buffer.alloc(3 * 1024 * 1024, 7);
    const person = { objectClass: ['inetOrgPerson'], uid: ['pictured'], cn: ['P'], sn: ['P'] };
    const list = [...attributes(person), { type: 'jpegPhoto', values: [photo] }];
    expect((await client.request({ op: 'add', dn, attributes: list })).code).to.equal(0);
    const found = await client.search(SUFFIX, { scope: 'sub', filter: longFilter('uid', 'pictured') });
    expect(found.entries.map((entry) => entry.dn)).to.deep.equal([dn]);
    expect(found.entries[0]!.attributes.get('jpegPhoto')![0]!.equals(photo)).to.equal(true);
  });

  it('what has begun is answered when the server is stopped', async () => {
    const id = client.send(addGroup(GROUP, members(0, 5000)));
    // Its answer shows that the server has read what was sent before.
    expect((await client.search(ADA)).code).to.equal(0);
    server.process.kill('SIGTERM');
    expect((await client.answer(id)).code).to.equal(0);
    expect(await exited(server.process)).to.equal(0);
    server = await serve(sandbox.data);
    [client, other] = [await RawClient.open(server.port), await RawClient.open(server.port)];
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    expect(await values(GROUP, 'member')).to.have.length(5000);
  });
});

describe('cli: a long entry that is not wanted any more', () => {
  const sandbox = new Sandbox();
  const clients: RawClient[] = [];
  const asked = { filter: longFilter('uid', 'ada') } as const;
  let server: RunningServer;

  before(async () => {
    await sandbox.initSample();
    // One long request of a user at a time.
    server = await serve(sandbox.data, ['--limits-long-requests', '2', '--limits-message-bytes', '64MiB']);
    const photo = attributes({ jpegPhoto: ' '.repeat(24 * 1024 * 1024) })[0]!;
    const changes = [{ operation: 'replace', attribute: photo }] as const;
    expect((await (await open()).request({ op: 'modify', dn: ADA, changes })).code).to.equal(0);
  });
  after(async () => {
    for (const client of clients) client.close();
    await server?.stop();
    await sandbox.remove();
  });

  async function open(): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    clients.push(client);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    return client;
  }

  /** Its id; some of it has come when it resolves, and no more is read. */
  async function begin(client: RawClient): Promise<number> {
    const id = client.send(searchRequest(ADA, { ...asked, attributes: ['jpegPhoto'] }));
    await once(client.socket, 'data');
    client.socket.pause();
    return id;
  }

  async function whenNotBusy(client: RawClient, request: Request): Promise<Answer> {
    for (;;) {
      const answer = await client.request(request);
      if (answer.code !== 51) return answer;
      await setTimeout(5);
    }
  }

  async function searchWhenNotBusy(client: RawClient): Promise<number> {
    const { code, entries } = await whenNotBusy(client, searchRequest(ADA, { ...asked, attributes: ['cn'] }));
    return code === 0 ? entries.length : -code;
  }

  it('what is done with a large group waits for its place, and small requests are answered meanwhile', async () => {
    const other = await open();
    const renamed = `cn=everybody,${SUFFIX}`;
    for (const request of [
      addGroup(GROUP, members(0, 3000)),
      modify(GROUP, ['replace', 'member', members(1500, 4500)]),
      { op: 'modifyDN', dn: GROUP, newRdn: 'cn=everybody', deleteOldRdn: true, newSuperior: undefined },
      { op: 'delete', dn: renamed },
    ] as const) {
      const client = await open();
      await begin(client);
      expect((await other.request(request)).code, request.op).to.equal(51);
      expect((await other.search(PEOPLE)).entries).to.have.length(1);
      client.close();
      expect((await whenNotBusy(other, request)).code, request.op).to.equal(0);
    }
    expect((await other.search(renamed)).code).to.equal(32);
  });

  it('its client is gone: the next long request has its place', async () => {
    const other = await open();
    for (let round = 0; round < 3; round++) {
      const client = await open();
      await begin(client);
      expect((await other.search(ADA, asked)).code, 'one is at work').to.equal(51);
      client.close();
      expect(await searchWhenNotBusy(other)).to.equal(1);
    }
  });

  it('its search is abandoned: it comes wholly, and the connection goes on', async () => {
    const client = await open();
    const id = await begin(client);
    client.send({ op: 'abandon', target: id });
    client.socket.resume();
    expect(await searchWhenNotBusy(client)).to.equal(1);
    expect(client.hasHeardOf(id)).to.equal(true);
  });

  it('its search is abandoned or canceled before it begins: it does not come', async () => {
    const client = await open();
    const abandoned = client.nextId() + 1;
    const search = searchRequest(ADA, { ...asked, attributes: ['jpegPhoto'] });
    client.sendTogether([search, { op: 'abandon', target: abandoned }]);
    expect(await searchWhenNotBusy(client)).to.equal(1);
    expect(client.hasHeardOf(abandoned)).to.equal(false);
    const canceled = client.nextId() + 1;
    const ids = client.sendTogether([
      search,
      { op: 'extended', oid: ExtendedOid.cancel, value: encodeCancel(canceled) },
    ]);
    expect(await client.answer(ids[0]!)).to.deep.include({ code: 118, entries: [] });
    expect((await client.answer(ids[1]!)).code).to.equal(0);
  });
});

describe('cli: passwords of who has a long entry', () => {
  const sandbox = new Sandbox();
  const cheap = ['--passwords-argon2-memory-kib', '64', '--passwords-argon2-time-cost', '1'];
  const clients: RawClient[] = [];
  let server: RunningServer;
  let admin: RawClient;

  before(async () => {
    await sandbox.initSample();
    server = await serve(sandbox.data, ['--limits-message-bytes', '32MiB', ...cheap]);
    admin = await open(ADMIN, PASSWORD);
  });
  after(async () => {
    for (const client of clients) client.close();
    await server?.stop();
    await sandbox.remove();
  });

  async function open(dn: string, password: string): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    clients.push(client);
    expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  async function addPerson(uid: string, type: string, values: readonly Buffer[]): Promise<string> {
    const dn = `uid=${uid},${PEOPLE}`;
    const own = attributes({ objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid, userPassword: 'first' });
    expect((await admin.request({ op: 'add', dn, attributes: [...own, { type, values }] })).code).to.equal(0);
    return dn;
  }

  function passwordModify(newer: string): Request {
    const names = { userIdentity: undefined, oldPassword: undefined };
    const value = encodePasswordModify({ ...names, newPassword: Buffer.from(newer) });
    return { op: 'extended', oid: ExtendedOid.passwordModify, value };
  }

  const compare = { op: 'compare', dn: PEOPLE, attribute: 'ou', value: Buffer.from('people') } as const;
  const photos = Array.from({ length: 20 }, (_, n) =>
    Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.alloc(50_000, n)]),
  );
  const kinds = [
    ['bytes', 'jpegPhoto', photos],
    ['values', 'seeAlso', members(0, 3000).map((value) => Buffer.from(value))],
  ] as const;
  for (const [kind, type, values] of kinds) {
    it(`of many ${kind}: pipelined changes of his own all succeed, and his bind goes on`, async () => {
      const dn = await addPerson(`own-${kind}`, type, values);
      const user = await open(dn, 'first');
      for (let round = 0; round < 5; round++) {
        const requests = Array.from({ length: 4 }, (_, n) => [
          modify(dn, ['replace', 'userPassword', [`a-${round}-${n}`]]),
          compare,
          passwordModify(`b-${round}-${n}`),
        ]).flat();
        const ids = user.sendTogether(requests);
        const codes = await Promise.all(ids.map(async (id) => (await user.answer(id)).code));
        expect(codes).to.deep.equal(requests.map(({ op }) => (op === 'compare' ? 6 : 0)));
      }
      expect((await user.request(modify(dn, ['replace', 'userPassword', ['last']]))).code).to.equal(0);
      await open(dn, 'last');
      const { entries } = await admin.search(dn);
      expect(entries[0]!.attributes.get(type)).to.have.length(values.length);
    });

    it(`of many ${kind}: no change of his undoes a reset`, async () => {
      const dn = await addPerson(`reset-${kind}`, type, values);
      let password = 'first';
      for (let round = 0; round < 10; round++) {
        const user = await open(dn, password);
        const own = user.sendTogether(
          Array.from({ length: 4 }, (_, n) => modify(dn, ['add', 'userPassword', [`own-${round}-${n}`]])),
        );
        password = `reset-${round}`;
        expect((await admin.request(modify(dn, ['replace', 'userPassword', [password]]))).code).to.equal(0);
        const codes = await Promise.all(
          own.map((id) =>
            user.answer(id).then(
              ({ code }) => code,
              () => 8,
            ),
          ),
        );
        for (const code of codes) expect(code).to.be.oneOf([0, 50, 8]);
        const asked = await RawClient.open(server.port);
        clients.push(asked);
        for (let n = 0; n < 4; n++) expect(await asked.bind(dn, `own-${round}-${n}`)).to.equal(49);
      }
    });
  }
});

describe('cli: searches with many results', () => {
  const sandbox = new Sandbox();
  const many = 400;
  /** Enough for an index to be better than a scan. */
  const all = 5 * many;
  let server: RunningServer;
  let client: RawClient;

  before(async () => {
    await sandbox.initSample();
    const person = (i: number): string =>
      `dn: uid=many${i},${PEOPLE}\nobjectClass: inetOrgPerson\nuid: many${i}\ncn: Many ${i}\nsn: ${i < many ? 'Many' : 'Other'}\n\n`;
    const input = Array.from({ length: all }, (_, i) => person(i)).join('');
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input });
    server = await serve(sandbox.data);
    client = await RawClient.open(server.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
  });
  after(async () => {
    client?.close();
    await server?.stop();
    await sandbox.remove();
  });

  const filter = { type: 'equal', attribute: 'sn', value: Buffer.from('many') } as const;
  const request = searchRequest(SUFFIX, { scope: 'sub', filter, attributes: ['cn'] });

  async function names(id: number): Promise<string[]> {
    const { code, entries } = await client.answer(id);
    expect(code).to.equal(0);
    return entries.map(({ attributes: found }) => String(found.get('cn')![0])).sort();
  }

  it('are shared between the server and its thread, and find the same in both', async () => {
    const expected = Array.from({ length: many }, (_, i) => `Many ${i}`).sort();
    const before = threadsOf(server);
    expect(await names(client.send(request))).to.deep.equal(expected);
    while (threadsOf(server) === before) await setTimeout(10);
    for (let round = 0; round < 10; round++) {
      // More than the thread takes at a time.
      const ids = client.sendTogether(Array.from({ length: 12 }, () => request));
      for (const id of ids) expect(await names(id)).to.deep.equal(expected);
    }
    const changed = modify(`uid=many7,${PEOPLE}`, ['replace', 'cn', ['Changed']]);
    expect((await client.request(changed)).code).to.equal(0);
    for (let i = 0; i < 12; i++) expect(await names(client.send(request))).to.include('Changed');
  });

  it('end where they are limited or abandoned', async () => {
    const limited = client.sendTogether(Array.from({ length: 12 }, () => ({ ...request, sizeLimit: 300 })));
    for (const id of limited)
      expect(await client.answer(id))
        .to.include({ code: 4 })
        .and.property('entries')
        .length(300);
    const next = client.nextId() + 1;
    const [, , last] = client.sendTogether([request, { op: 'abandon', target: next }, request]);
    expect(await names(last!)).to.have.length(many);
    expect((await client.search(ADA)).code).to.equal(0);
    expect(client.hasHeardOf(next)).to.equal(false);
  });
});

function threadsOf({ process: { pid } }: RunningServer): number {
  return readdirSync(`/proc/${pid}/task`).length;
}

/** Of a control value: SEQUENCE { INTEGER, OCTET STRING }, both short. */
function cookieOf(value: Buffer): Buffer {
  const size = value[3]!;
  const at = 4 + size;
  const length = value[at + 1]!;
  return length < 0x80 ? value.subarray(at + 2) : value.subarray(at + 2 + (length & 0x7f));
}
