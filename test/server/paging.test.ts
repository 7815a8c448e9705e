import { expect } from 'chai';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import type { SearchRequest } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { ADMIN, PEOPLE, personDn, type Running, start } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';

function page(client: RawClient, size: number, cookie: Buffer, parts: Partial<SearchRequest> = {}): Promise<Answer> {
  const value = encodePagedResults({ size, cookie });
  return client.search(PEOPLE, { scope: 'one', ...parts }, [{ oid: ControlOid.pagedResults, critical: true, value }]);
}

const NONE = Buffer.alloc(0);

function cookieOf(answer: Answer): Buffer {
  return decodePagedResults(answer.controls.find((control) => control.oid === ControlOid.pagedResults)?.value).cookie;
}

describe('server: paged results', () => {
  let running: Running;
  let admin: RawClient;
  before(async () => {
    running = await start({ 'limits.search.sizeLimit': 7 }, 20);
    admin = await RawClient.open(running.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
  });
  after(async () => {
    admin.close();
    await running.stop();
  });

  it('go on over a new connection, and on another front end of the same directory', async () => {
    const first = await page(admin, 6, NONE);
    const other = await start({}, 0, running.partition);
    const again = await RawClient.open(other.port);
    await again.bind(ADMIN.dn, ADMIN.password);
    const second = await page(again, 100, cookieOf(first));
    const dns = [...first.entries, ...second.entries].map((entry) => entry.dn);
    expect(new Set(dns).size).to.equal(20);
    expect(cookieOf(second).length).to.equal(0);
    again.close();
    await other.stop();
  });

  it('a size of 0 ends them', async () => {
    const first = await page(admin, 3, NONE);
    const last = await page(admin, 0, cookieOf(first));
    expect([last.code, last.entries.length, cookieOf(last).length]).to.deep.equal([0, 0, 0]);
    expect((await page(admin, 0, NONE)).entries).to.deep.equal([]);
  });

  it('a size of 2³¹ − 1 gives everything', async () => {
    expect((await page(admin, 0x7fffffff, NONE)).entries).to.have.length(20);
  });

  it('a cookie with any byte changed is refused, and so is one that is cut', async () => {
    const cookie = cookieOf(await page(admin, 3, NONE));
    for (let at = 0; at < cookie.length; at++) {
      const forged = Buffer.from(cookie);
      forged[at] = forged[at]! ^ 1;
      expect((await page(admin, 3, forged)).code, `byte ${at}`).to.equal(53);
      if (at > 0) expect((await page(admin, 3, cookie.subarray(0, at))).code, `cut at ${at}`).to.equal(53);
    }
    expect((await page(admin, 3, Buffer.from('x'))).code).to.equal(53);
    expect((await page(admin, 3, cookie)).code).to.equal(0);
  });

  it('a cookie of another search or another user is refused', async () => {
    const cookie = cookieOf(await page(admin, 3, NONE));
    expect((await page(admin, 3, cookie, { scope: 'sub' })).code).to.equal(53);
    expect((await page(admin, 3, cookie, { attributes: ['cn'] })).code).to.equal(53);
    expect((await page(admin, 3, cookie, { filter: { type: 'present', attribute: 'cn' } })).code).to.equal(53);
    const user = await RawClient.open(running.port);
    await user.bind(personDn('p0'), 'secret-0');
    expect((await page(user, 3, cookie)).code).to.equal(53);
    user.close();
  });

  it('an expired cookie is refused', async () => {
    const { pageCookies } = running.server.services;
    const request = { op: 'search', base: PEOPLE, scope: 'one', deref: 'never', sizeLimit: 0, timeLimit: 0 } as const;
    const whole = {
      ...request,
      typesOnly: false,
      attributes: [],
      filter: { type: 'present', attribute: 'objectClass' },
    } as const;
    const base = running.partition.schema.parseDn(PEOPLE);
    const longAgo = Date.now() - 4_000_000;
    const cookie = pageCookies.seal({ resumeKey: Buffer.alloc(3), sentCount: 1 }, whole, base, 'admin', longAgo);
    const answer = await page(admin, 3, cookie);
    expect(answer.code).to.equal(53);
    expect(answer.final.message).to.contain('expired');
  });

  it('the server’s size limit counts in each page, the client’s in all together', async () => {
    const user = await RawClient.open(running.port);
    await user.bind(personDn('p0'), 'secret-0');
    expect((await user.search(PEOPLE, { scope: 'one' })).code).to.equal(4);
    let entries = 0;
    let cookie: Buffer = NONE;
    do {
      const answer = await page(user, 100, cookie);
      expect(answer.entries.length).to.be.at.most(7);
      entries += answer.entries.length;
      cookie = cookieOf(answer);
    } while (cookie.length > 0);
    expect(entries).to.equal(20);
    const first = await page(admin, 6, NONE, { sizeLimit: 8 });
    const second = await page(admin, 6, cookieOf(first), { sizeLimit: 8 });
    expect([first.entries.length, second.entries.length, second.code]).to.deep.equal([6, 2, 4]);
    user.close();
  });
});
