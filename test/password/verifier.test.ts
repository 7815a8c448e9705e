import { expect } from 'chai';
import { CredentialCache, hashPassword, type PasswordPolicy, PasswordVerifier } from '../../src/password/index.js';
import { SlowWork } from '../../src/password/slow-work.js';
import { MAX_SLOW_VALUES } from '../../src/password/verifier.js';

const bytes = (text: string): Buffer => Buffer.from(text);
const policy: PasswordPolicy = { scheme: 'argon2id', argon2: { memoryKiB: 64, timeCost: 1, parallelism: 1 } };
const id = Buffer.alloc(16, 1);
const ssha = bytes('{SSHA}MDMxPOJ0RRnnLx0ABLNr2PozekikvkUa');

describe('CredentialCache', () => {
  it('remembers exactly the credential, until its time is over', () => {
    let now = 1000;
    const cache = new CredentialCache({ seconds: 60, entries: 100, now: () => now });
    const stored = bytes('{ARGON2}x');
    expect(cache.has(id, stored, bytes('a'))).to.equal(false);
    cache.remember(id, stored, bytes('a'));
    expect(cache.has(id, stored, bytes('a'))).to.equal(true);
    expect(cache.has(id, stored, bytes('b'))).to.equal(false);
    expect(cache.has(Buffer.alloc(16, 2), stored, bytes('a'))).to.equal(false);
    expect(cache.has(id, bytes('{ARGON2}y'), bytes('a'))).to.equal(false);
    expect(cache.has(id, bytes('{ARGON2}'), bytes('xa'))).to.equal(false);
    now += 59_999;
    expect(cache.has(id, stored, bytes('a'))).to.equal(true);
    now += 1;
    expect(cache.has(id, stored, bytes('a'))).to.equal(false);
    cache.remember(id, stored, bytes('a'));
    expect(cache.has(id, stored, bytes('a'))).to.equal(true);
    cache.clear();
    expect(cache.has(id, stored, bytes('a'))).to.equal(false);
  });

  it('gives up the oldest when it is full', () => {
    let now = 1;
    const cache = new CredentialCache({ entries: 4, now: () => now });
    for (let i = 0; i < 6; i++, now++) cache.remember(id, bytes('x'), bytes(String(i)));
    const held = [0, 1, 2, 3, 4, 5].filter((i) => cache.has(id, bytes('x'), bytes(String(i))));
    expect(held).to.deep.equal([2, 3, 4, 5]);
  });
});

describe('PasswordVerifier', () => {
  it('answers at once for a fast scheme and names the value that matched', () => {
    const verifier = new PasswordVerifier(policy);
    expect(verifier.verify(id, [bytes('{SHA}x'), ssha], bytes('secret'))).to.equal(ssha);
  });

  it('pays for argon2 on every failure, with or without an entry', async () => {
    const verifier = new PasswordVerifier(policy);
    for (const values of [[], [ssha], [bytes('{ARGON2}broken')], [bytes('{NOSUCH}x')]]) {
      const result = verifier.verify(id, values, bytes('wrong'));
      expect(result).to.be.instanceOf(Promise);
      expect(await result).to.equal(undefined);
    }
  });

  it('answers from the cache until the stored value changes', async () => {
    const verifier = new PasswordVerifier(policy, new CredentialCache());
    const stored = await hashPassword(bytes('geheim'), policy);
    const first = verifier.verify(id, [stored], bytes('geheim'));
    expect(first).to.be.instanceOf(Promise);
    expect(await first).to.equal(stored);
    expect(verifier.verify(id, [stored], bytes('geheim'))).to.equal(stored);
    expect(await verifier.verify(id, [stored], bytes('wrong'))).to.equal(undefined);
    const again = verifier.verify(id, [await hashPassword(bytes('geheim'), policy)], bytes('geheim'));
    expect(again).to.be.instanceOf(Promise);
    expect(await again).to.not.equal(undefined);
    expect(await verifier.verify(id, [await hashPassword(bytes('neu'), policy)], bytes('geheim'))).to.equal(undefined);
  });

  it('tries a bounded number of slow values', async () => {
    const verifier = new PasswordVerifier(policy);
    const others: Buffer[] = [];
    for (let i = 0; i < MAX_SLOW_VALUES; i++) others.push(await hashPassword(bytes('other'), policy));
    const right = await hashPassword(bytes('geheim'), policy);
    expect(await verifier.verify(id, [...others.slice(1), right], bytes('geheim'))).to.equal(right);
    expect(await verifier.verify(id, [...others, right], bytes('geheim'))).to.equal(undefined);
  });
});

describe('SlowWork', () => {
  it('runs no more than its size at a time, in order, also after failures', async () => {
    const work = new SlowWork(2);
    const begun: number[] = [];
    let running = 0;
    let most = 0;
    const piece = (i: number) => async (): Promise<number> => {
      begun.push(i);
      most = Math.max(most, ++running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
      if (i % 3 === 0) throw new RangeError(String(i));
      return i;
    };
    const results = await Promise.allSettled([...Array(10).keys()].map((i) => work.run(piece(i))));
    expect(begun).to.deep.equal([...Array(10).keys()]);
    expect(most).to.equal(2);
    expect(work.waiting).to.equal(0);
    expect(results.map((r) => r.status === 'fulfilled')).to.deep.equal([...Array(10).keys()].map((i) => i % 3 !== 0));
  });
});
