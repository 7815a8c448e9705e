import { expect } from 'chai';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { encodeCancel } from '../protocol/client-values.js';
import { ADMIN, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest, simpleBind } from './raw-client.js';

/** No index serves it, so that every entry is looked at. */
const UNINDEXED = { type: 'equal', attribute: 'description', value: Buffer.from('nothing') } as const;

describe('server: abandon and cancel', () => {
  let running: Running;
  let client: RawClient;
  const longSearch = searchRequest(PEOPLE, { scope: 'sub', filter: UNINDEXED });

  before(async () => {
    running = await start({}, 3000);
    client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
  });
  after(async () => {
    client.close();
    await running.stop();
  });

  it('an abandoned search is not answered', async () => {
    const search = client.nextId() + 1;
    client.sendTogether([longSearch, { op: 'abandon', target: search }]);
    expect((await client.search(SUFFIX)).code).to.equal(0);
    expect((await client.request(longSearch)).code).to.equal(0);
    expect(client.hasHeardOf(search)).to.equal(false);
  });

  it('abandon of a bind, of what has ended and of what never was does nothing', async () => {
    const bind = client.nextId() + 1;
    client.sendTogether([
      simpleBind(ADMIN.dn, ADMIN.password),
      { op: 'abandon', target: bind },
      { op: 'abandon', target: 1 },
      { op: 'abandon', target: 99_999 },
    ]);
    expect((await client.answer(bind)).code).to.equal(0);
    expect((await client.search(SUFFIX)).code).to.equal(0);
  });

  it('a canceled search is answered with 118, the cancel with 0', async () => {
    const search = client.nextId() + 1;
    const cancel = { op: 'extended', oid: ExtendedOid.cancel, value: encodeCancel(search) } as const;
    const ids = client.sendTogether([longSearch, cancel]);
    expect((await client.answer(ids[1]!)).code).to.equal(0);
    expect((await client.answer(search)).code).to.equal(118);
  });

  it('a write cannot be canceled', async () => {
    const changes = [{ operation: 'replace', attribute: { type: 'description', values: [Buffer.from('x')] } } as const];
    let code: number | undefined;
    // On a busy machine it may have ended when the cancel is read: then there is no such operation.
    for (let tries = 0; tries < 50 && code !== 121; tries++) {
      const modify = client.nextId() + 1;
      const cancel = { op: 'extended', oid: ExtendedOid.cancel, value: encodeCancel(modify) } as const;
      const ids = client.sendTogether([{ op: 'modify', dn: personDn('p0'), changes }, cancel]);
      expect((await client.answer(ids[0]!)).code).to.equal(0);
      code = (await client.answer(ids[1]!)).code;
      expect(code).to.be.oneOf([119, 121]);
    }
    expect(code).to.equal(121);
  });

  it('a messageID in use is refused', async () => {
    const request = (await import('../../src/protocol/encode.js')).encodeRequest({
      id: 5000,
      request: longSearch,
      controls: [],
    });
    client.write(Buffer.concat([request, request]));
    const first = await client.answer(5000);
    expect(first.code).to.equal(2);
    expect((await client.answer(5000)).code).to.equal(0);
  });

  it('a bind waits for what came before it, and what comes after waits for the bind', async () => {
    const user = await RawClient.open(running.port);
    await user.bind(ADMIN.dn, ADMIN.password);
    const ids = user.sendTogether([
      longSearch,
      simpleBind('', ''),
      searchRequest(SUFFIX),
      simpleBind(personDn('p1'), 'secret-1'),
      searchRequest(SUFFIX),
    ]);
    const bind = await user.answer(ids[1]!);
    expect(user.hasHeardOf(ids[0]!), 'answered before the bind').to.equal(true);
    const before = await user.answer(ids[0]!);
    const codes = [before.code, bind.code];
    for (const id of ids.slice(2)) codes.push((await user.answer(id)).code);
    expect(codes).to.deep.equal([0, 0, 50, 0, 0]);
    user.close();
  });

  it('a long search lets others through', async () => {
    expect((await client.answer(await client.overtaken(longSearch))).code).to.equal(0);
  });
});
