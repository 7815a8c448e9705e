import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import type { ConnectionEvent, FinishedOperation } from '../../src/server/observation/observation.js';
import type { RequestDescription } from '../../src/server/observation/request-description.js';
import { ADMIN, attributes, CHEAP, PEOPLE, personAttributes, personDn, type Running, start } from './directory.js';
import { RawClient } from './raw-client.js';

/** An operation as an observer saw it, with its description. */
interface Seen extends Omit<FinishedOperation, 'description'> {
  readonly request: RequestDescription | undefined;
}

describe('observers of operations', () => {
  let running: Running;
  let client: RawClient;
  const seen: Seen[] = [];
  const events: ConnectionEvent[] = [];
  let stop: () => void;
  before(async () => {
    running = await start(CHEAP, 150);
    stop = running.server.services.observation.add({
      onOperation: (operation) => void seen.push({ ...operation, request: operation.description() }),
      onConnection: (event) => void events.push(event),
    });
  });
  beforeEach(async () => {
    client = await RawClient.open(running.port);
    // The server has accepted the connection once it has answered.
    await client.search('');
    seen.length = events.length = 0;
  });
  afterEach(() => client.close());
  after(() => running.stop());

  it('see each operation once, with its number, result, entries and all bytes of its responses', async () => {
    let bytes = 0;
    client.socket.on('data', (chunk: Buffer) => (bytes += chunk.length));
    await client.bind(ADMIN.dn, ADMIN.password);
    await client.search(PEOPLE, { scope: 'one' });
    await client.search(personDn('nobody'));
    await client.request({ op: 'delete', dn: personDn('nobody') });
    expect(
      seen.map(({ op, operationNumber, result, entryCount }) => [op, operationNumber, result.code, entryCount]),
    ).to.deep.equal([
      ['bind', 2, 0, 0],
      ['search', 3, 0, 150],
      ['search', 4, 32, 0],
      ['delete', 5, 32, 0],
    ]);
    expect(seen.reduce((sum, { sentBytes }) => sum + sentBytes, 0)).to.equal(bytes);
    expect(seen.map(({ boundAs }) => boundAs)).to.deep.equal(Array(4).fill(ADMIN.dn));
    for (const { address, waitMs, workMs } of seen) {
      expect(address).to.equal('127.0.0.1');
      expect([waitMs, workMs].every((ms) => ms >= 0)).to.equal(true);
    }
    expect(seen[1]!.search).to.include({ plan: 'scope', rowsExamined: 150 });
    const { statistics } = running.server.services;
    expect(statistics.ended.search.results).to.include({ 32: 1 });
    expect(statistics.bytesSent).to.be.at.least(bytes);
  });

  it('see a search without an index that examines many rows as unindexed', async () => {
    await client.bind(ADMIN.dn, ADMIN.password);
    const { statistics } = running.server.services;
    const before = statistics.unindexedSearches;
    for (const attribute of ['description', 'uid'])
      await client.search(PEOPLE, { scope: 'sub', filter: { type: 'equal', attribute, value: Buffer.from('x') } });
    expect(statistics.unindexedSearches - before).to.equal(1);
    expect(seen[1]!.search!.advice()).to.equal('rowan index add description');
  });

  it('see the reason of a failed bind, which the client is not told', async () => {
    for (const [dn, password] of [
      [personDn('nobody'), 'x'],
      [PEOPLE, 'x'],
      [personDn('p1'), 'wrong'],
      [ADMIN.dn, 'wrong'],
    ] as const)
      expect((await client.bind(dn, password)) as number).to.equal(49);
    expect(seen.map(({ bindFailure }) => bindFailure)).to.deep.equal([
      'no such entry',
      'entry has no password',
      'wrong password',
      'wrong password',
    ]);
    expect(new Set(seen.map(({ result }) => result.message)).size).to.equal(1);
    expect([await client.bind('no name', 'x'), await client.bind(ADMIN.dn, '')]).to.deep.equal([34, 53]);
    expect(seen.slice(4).map(({ bindFailure }) => bindFailure)).to.deep.equal(['malformed name', 'empty password']);
  });

  it('see requests as texts that are short and hold no secret', async () => {
    await client.bind(ADMIN.dn, ADMIN.password);
    const secret = Buffer.from('the secret');
    const equal = { type: 'equal', attribute: 'userPassword;x-a', value: secret } as const;
    const substring = {
      type: 'substring',
      attribute: 'userPassword',
      initial: secret,
      any: [],
      final: undefined,
    } as const;
    const rule = {
      type: 'extensible',
      rule: 'octetStringMatch',
      attribute: undefined,
      value: secret,
      dnAttributes: false,
    } as const;
    await client.search(PEOPLE, { filter: { type: 'not', filter: { type: 'or', filters: [equal, substring, rule] } } });
    await client.search(PEOPLE, { filter: { type: 'equal', attribute: 'cn', value: Buffer.alloc(7000, 'x') } });
    const password = attributes({ userPassword: secret.toString() })[0]!;
    await client.request({ op: 'add', dn: personDn('new'), attributes: [...personAttributes('new'), password] });
    const changes = [{ operation: 'replace', attribute: password }] as const;
    await client.request({ op: 'modify', dn: personDn('new'), changes });
    await client.request({ op: 'compare', dn: personDn('new'), attribute: 'userPassword', value: secret });
    const [bound, hidden, long, added, modified, compared] = seen.map(({ request }) => request!);
    expect(bound).to.deep.equal({ target: ADMIN.dn, method: 'simple', version: 3 });
    expect(hidden!.filter).to.equal('(!(|(userPassword;x-a=hidden)(userPassword=hidden)(:octetStringMatch:=hidden)))');
    expect(long!.filter)
      .to.have.lengthOf(4097)
      .and.match(/^\(cn=x+…$/);
    expect(added!.attributes).to.include.members(['objectClass', 'userPassword']);
    expect(modified!.changes).to.deep.equal(['replace: userPassword']);
    expect(compared).to.deep.equal({ target: personDn('new'), attributes: ['userPassword'] });
    expect(JSON.stringify(seen)).to.not.match(/the secret|dGhlIHNlY3JldA/);
  });

  it('see no value of a name that may be a secret, however it is written', async () => {
    await client.bind(ADMIN.dn, ADMIN.password);
    seen.length = 0;
    const value = Buffer.from('SECRET');
    const names = [
      'userPassword;',
      'userPassword;x,y',
      'userPassword ',
      'oid.2.5.4.35',
      '2.5.4.035',
      'sambaNTPassword',
    ];
    for (const attribute of names) await client.search(PEOPLE, { filter: { type: 'equal', attribute, value } });
    const dns = ['SECRET', 'userPassword=SECRET,ou=people', 'uid=ada+userPassword;x=SECRET', 'OID.2.5.4.35=a\\,SECRET'];
    dns.push('uid=ada,userPassword=SECRET', 'uid=ada,SECRET,dc=com', 'uid=ada,dc=example,SECRET');
    for (const dn of dns) {
      await client.request({ op: 'delete', dn });
      await client.request({ op: 'modifyDN', dn, newRdn: dn, deleteOldRdn: true, newSuperior: dn });
      await client.bind(dn, 'x');
    }
    const sasl = { method: 'sasl', mechanism: 'SECRET word', credentials: undefined } as const;
    await client.request({ op: 'bind', version: 3, name: '', authentication: sasl });
    const requests = seen.map(({ request }) => request!);
    expect(JSON.stringify(requests)).to.not.include('SECRET');
    expect(requests.filter(({ filter }) => filter).map(({ filter }) => filter)).to.deep.equal(
      names.map((name) => `(${name}=hidden)`),
    );
    expect(requests.filter(({ newRdn }) => newRdn).map(({ newRdn }) => newRdn)).to.deep.equal([
      'hidden',
      'userPassword=hidden,ou=people',
      'uid=ada+userPassword;x=hidden',
      'OID.2.5.4.35=hidden',
      'uid=ada,userPassword=hidden',
      'uid=ada,hidden,dc=com',
      'uid=ada,dc=example,hidden',
    ]);
    expect(requests.at(-1)!.method).to.equal('invalid');
  });

  it('see messages that cannot be decoded, unbinds, and connections', async () => {
    client.write(Buffer.from('300c02010163070a0100040101ff', 'hex'));
    await client.ended();
    const second = await RawClient.open(running.port);
    second.sendTogether([{ op: 'abandon', target: 7 }, { op: 'unbind' }]);
    await second.ended();
    while (events.length < 3) await setImmediate();
    expect(seen.map(({ op, result: { code }, request }) => [op, code, request])).to.deep.equal([
      ['search', 2, undefined],
      ['abandon', 0, { abandonedId: 7 }],
      ['unbind', 0, {}],
    ]);
    const connection = { address: '127.0.0.1', isEncrypted: false };
    const [first, , last] = seen.map(({ connectionNumber }) => connectionNumber);
    expect(events).to.have.deep.members([
      { ...connection, kind: 'closed', connectionNumber: first, localPort: undefined },
      { ...connection, kind: 'opened', connectionNumber: last, localPort: running.port },
      { ...connection, kind: 'closed', connectionNumber: last, localPort: undefined },
    ]);
  });

  it('are not called any more once they were removed', async () => {
    stop();
    await client.bind(ADMIN.dn, ADMIN.password);
    expect(seen).to.deep.equal([]);
    expect(running.server.services.observation.isActive).to.equal(false);
  });
});
