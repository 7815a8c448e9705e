import { expect } from 'chai';
import { MAX_SLOW_VALUES } from '../../src/password/cost-groups.js';
import { CredentialCache, hashPassword, type PasswordPolicy, PasswordVerifier } from '../../src/password/index.js';
import { SlowWork, type Source } from '../../src/password/slow-work.js';
import { gate } from './hold.js';

const bytes = (text: string): Buffer => Buffer.from(text);
const policy: PasswordPolicy = { scheme: 'argon2id', argon2: { memoryKiB: 64, timeCost: 1, parallelism: 1 } };
const id = Buffer.alloc(16, 1);
const ssha = bytes('{SSHA}MDMxPOJ0RRnnLx0ABLNr2PozekikvkUa');

describe('CredentialCache', () => {
  it('the credential cache keeps exactly the credential, until its time is over', () => {
    let now = 1000;
    const cache = new CredentialCache({ seconds: 60, entries: 100, now: () => now });
    const stored = bytes('{ARGON2}x');
    expect(cache.isVerified(id, stored, bytes('a'))).to.equal(false);
    cache.remember(id, stored, bytes('a'));
    expect(cache.isVerified(id, stored, bytes('a'))).to.equal(true);
    expect(cache.isVerified(id, stored, bytes('b'))).to.equal(false);
    expect(cache.isVerified(Buffer.alloc(16, 2), stored, bytes('a'))).to.equal(false);
    expect(cache.isVerified(id, bytes('{ARGON2}y'), bytes('a'))).to.equal(false);
    expect(cache.isVerified(id, bytes('{ARGON2}'), bytes('xa'))).to.equal(false);
    now += 59_999;
    expect(cache.isVerified(id, stored, bytes('a'))).to.equal(true);
    now += 1;
    expect(cache.isVerified(id, stored, bytes('a'))).to.equal(false);
    cache.remember(id, stored, bytes('a'));
    expect(cache.isVerified(id, stored, bytes('a'))).to.equal(true);
    cache.clear();
    expect(cache.isVerified(id, stored, bytes('a'))).to.equal(false);
  });

  it('the credential cache evicts the oldest entry when it is full', () => {
    let now = 1;
    const cache = new CredentialCache({ entries: 4, now: () => now });
    for (let i = 0; i < 6; i++, now++) cache.remember(id, bytes('x'), bytes(String(i)));
    const held = [0, 1, 2, 3, 4, 5].filter((i) => cache.isVerified(id, bytes('x'), bytes(String(i))));
    expect(held).to.deep.equal([2, 3, 4, 5]);
  });
});

describe('PasswordVerifier', () => {
  it('a fast scheme is verified at once, and the matching value is named', () => {
    const verifier = new PasswordVerifier(policy);
    expect(verifier.verify(id, [bytes('{SHA}x'), ssha], bytes('secret'))).to.equal(ssha);
  });

  it('every failed verification pays for argon2, with or without an entry', async () => {
    const verifier = new PasswordVerifier(policy);
    for (const values of [[], [ssha], [bytes('{ARGON2}broken')], [bytes('{NOSUCH}x')]]) {
      const result = verifier.verify(id, values, bytes('wrong'));
      expect(result).to.be.instanceOf(Promise);
      expect(await result).to.equal(undefined);
    }
  });

  it('verification uses the cache until the stored value changes', async () => {
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

  it('a bounded number of slow values is tried', async () => {
    const verifier = new PasswordVerifier(policy);
    const others: Buffer[] = [];
    for (let i = 0; i < MAX_SLOW_VALUES; i++) others.push(await hashPassword(bytes('other'), policy));
    const right = await hashPassword(bytes('geheim'), policy);
    expect(await verifier.verify(id, [...others.slice(1), right], bytes('geheim'))).to.equal(right);
    expect(await verifier.verify(id, [...others, right], bytes('geheim'))).to.equal(undefined);
  });
});

describe('SlowWork', () => {
  it('slow work runs at most its size at a time, in order, also after failures', async () => {
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
    expect(work.waitingCount).to.equal(0);
    expect(results.map((r) => r.status === 'fulfilled')).to.deep.equal([...Array(10).keys()].map((i) => i % 3 !== 0));
  });
});

describe('SlowWork of expensive pieces', () => {
  it('expensive slow work leaves one slot to other work, however much expensive work there is', async () => {
    const work = new SlowWork(3);
    const { opened, open } = gate();
    let begun = 0;
    const piece = async (): Promise<void> => {
      begun++;
      await opened;
    };
    const dear = Array.from({ length: 9 }, (_, n) => work.run(piece, { network: `n${n}`, identity: '' }, true));
    for (let n = 0; n < 5; n++) expect(await work.run(async () => n)).to.equal(n);
    expect(begun).to.equal(2);
    expect(work.waitingCount).to.equal(7);
    open();
    await Promise.all(dear);
    expect([begun, work.waitingCount]).to.deep.equal([9, 0]);
  });

  it('expensive slow work gets its share where there is only one slot', async () => {
    const work = new SlowWork(1);
    const { opened, open } = gate();
    const first = work.run(() => opened);
    const order: string[] = [];
    const source = { network: '', identity: '' };
    const note = (what: string, dear: boolean) => work.run(async () => void order.push(what), source, dear);
    const all = [...Array(3)].map(() => note('dear', true)).concat([...Array(12)].map(() => note('usual', false)));
    open();
    await Promise.all([first, ...all]);
    expect(order.flatMap((what, i) => (what === 'dear' ? [i] : []))).to.deep.equal([3, 7, 11]);
  });
});

describe('SlowWork of many sources', () => {
  const own = { network: '10.0.0.1', identity: 'uid=ann' };
  const attacker = { network: '10.6.6.6', identity: 'uid=ann' };

  /** Who had a turn, in order, when all of them wait. */
  async function turns(work: SlowWork, sources: readonly { network: string; identity: string }[]): Promise<string[]> {
    const began: string[] = [];
    const { opened, open } = gate();
    const first = work.run(() => opened);
    const waiting = sources.map((source) =>
      work.run(async () => void began.push(`${source.network} ${source.identity}`), source),
    );
    open();
    await Promise.all([first, ...waiting]);
    return began;
  }

  it('a correct password does not wait for 200 wrong passwords from another network', async () => {
    const work = new SlowWork(1);
    const wrong = Array.from({ length: 200 }, () => attacker);
    const order = await turns(work, [...wrong, own]);
    expect(order.indexOf('10.0.0.1 uid=ann')).to.be.at.most(1);
  });

  it('a correct password does not wait for wrong passwords of other names from its own network', async () => {
    const work = new SlowWork(1);
    const wrong = Array.from({ length: 200 }, () => ({ ...own, identity: 'uid=eve' }));
    expect((await turns(work, [...wrong, own])).indexOf('10.0.0.1 uid=ann')).to.be.at.most(1);
  });

  it('an identity that succeeded before goes first, however many others wait', async () => {
    const work = new SlowWork(1);
    const many = Array.from({ length: 200 }, (_, n) => ({ ...own, identity: `uid=u${n}` }));
    work.recordResult(own, true);
    expect((await turns(work, [...many, own])).indexOf('10.0.0.1 uid=ann')).to.equal(0);
    for (let n = 0; n < 3; n++) work.recordResult(own, false);
    const amidst = [...many.slice(0, 100), own, ...many.slice(100)];
    expect((await turns(work, amidst)).indexOf('10.0.0.1 uid=ann'), 'after failures').to.be.at.least(100);
    work.recordResult(own, true);
    expect((await turns(work, [...many, own])).indexOf('10.0.0.1 uid=ann'), 'after a success').to.equal(0);
  });

  it('failures, however many, do not make the queue forget which identities succeeded before', async () => {
    const work = new SlowWork(1);
    work.recordResult(own, true);
    for (let n = 0; n < 20_001; n++) work.recordResult({ ...own, identity: `uid=x${n}` }, false);
    const many = Array.from({ length: 20 }, (_, n) => ({ ...own, identity: `uid=u${n}` }));
    expect((await turns(work, [many[0]!, own, ...many.slice(1)])).indexOf('10.0.0.1 uid=ann')).to.equal(0);
  });

  it('a first attempt does not wait for all earlier attempts', async () => {
    const many = Array.from({ length: 2000 }, (_, n) => ({ ...own, identity: `uid=u${n}`, connection: { n } }));
    const order = await turns(new SlowWork(1), [...many, own]);
    expect(order.indexOf('10.0.0.1 uid=ann')).to.be.at.most(1);
    // Nor do those who come later keep the first one waiting: it is the third, behind two of the latest.
    expect(order.indexOf('10.0.0.1 uid=u0')).to.be.at.most(2);
  });

  it('a first attempt does not wait for connections that have failed, whatever names they try next', async () => {
    const work = new SlowWork(1);
    const connections = Array.from({ length: 200 }, (_, n) => ({ n }));
    for (const connection of connections)
      work.recordResult({ ...own, identity: `uid=x${connection.n}`, connection }, false);
    const named = (connection: { n: number }) => ({ ...own, identity: `uid=y${connection.n}`, connection });
    const wrong = connections.map(named);
    const order = await turns(work, [...wrong.slice(0, 100), own, ...wrong.slice(100)]);
    expect(order[0]).to.equal('10.0.0.1 uid=ann');
    work.recordResult({ ...own, identity: 'uid=right', connection: connections[100]! }, true);
    const after = await turns(work, wrong);
    expect(after[0], 'a right password makes up for the wrong ones').to.equal('10.0.0.1 uid=y100');
  });

  it('no rank of the queue waits forever for higher ranks', async () => {
    const work = new SlowWork(1);
    const failing = { connection: 1 };
    work.recordResult(attacker, false);
    work.recordResult({ ...own, identity: 'uid=x', connection: failing }, false);
    const doubtful = { ...own, identity: 'uid=doubtful', connection: failing };
    const others = Array.from({ length: 60 }, (_, n) => ({ network: '10.0.0.2', identity: `uid=u${n}` }));
    const order = await turns(work, [attacker, attacker, doubtful, doubtful, ...others]);
    const at = (who: string) => order.flatMap((one, i) => (one.endsWith(who) ? [i] : []));
    expect([...at('uid=ann'), ...at('uid=doubtful')].sort((a, b) => a - b)).to.deep.equal([7, 15, 23, 31]);
    expect(at('uid=doubtful')[0]).to.be.below(16);
  });

  it('an identity that has only failed comes last, and still gets its turn', async () => {
    const work = new SlowWork(1);
    work.recordResult(attacker, false);
    const others = Array.from({ length: 40 }, (_, n) => ({ network: '10.0.0.2', identity: `uid=u${n}` }));
    const order = await turns(work, [attacker, attacker, attacker, ...others]);
    const at = order.flatMap((one, i) => (one === '10.6.6.6 uid=ann' ? [i] : []));
    expect(at).to.deep.equal([7, 15, 23]);
  });

  it('slow work beyond the queue limit is refused, and one network leaves half of the queue free', async () => {
    const work = new SlowWork(1, 10);
    const { opened, open } = gate();
    const running = work.run(() => opened);
    const outcomes = [...Array(8).fill(attacker), ...Array(8).fill(own)].map((source) =>
      work.run(async () => 'done', source).catch((error: Error) => error.constructor.name),
    );
    open();
    await running;
    const said = await Promise.all(outcomes);
    const expected = [...Array(5).fill('done'), ...Array(3).fill('SlowWorkFull')];
    expect(said).to.deep.equal([...expected, ...expected]);
    expect(await work.run(async () => 'again', own)).to.equal('again');
    expect(work.waitingCount).to.equal(0);
  });

  /** How each of the pieces, which come while nothing has a turn, ends. */
  async function ends(work: SlowWork, sources: readonly Source[]): Promise<string[]> {
    const { opened, open } = gate();
    const running = work.run(() => opened);
    const outcomes = sources.map((source) =>
      work.run(async () => 'done', source).catch((error: Error) => error.constructor.name),
    );
    open();
    await running;
    return Promise.all(outcomes);
  }
  const count = (said: readonly string[]) => said.filter((one) => one === 'done').length;

  it('one identity takes no place in its network that another identity needs', async () => {
    const eve = { ...own, identity: 'uid=eve' };
    const said = await ends(new SlowWork(1, 20), [...Array(30).fill(eve), ...Array(3).fill(own)]);
    expect(count(said.slice(0, 30))).to.equal(7);
    expect(count(said.slice(30))).to.equal(3);
  });

  it('one connection of an identity takes no place that another connection needs', async () => {
    const [one, other] = [{ n: 1 }, { n: 2 }];
    const first = { ...own, connection: one };
    const second = { ...own, connection: other };
    const said = await ends(new SlowWork(1, 20), [...Array(30).fill(first), ...Array(30).fill(second)]);
    expect(count(said.slice(0, 30))).to.equal(5);
    expect(count(said.slice(30))).to.equal(5);
  });

  it('many networks take no place that a further network needs', async () => {
    const from = (network: string): Source => ({ network, identity: 'x' });
    const said = await ends(new SlowWork(1, 20), [
      ...Array(10).fill(from('a')),
      ...Array(10).fill(from('b')),
      ...Array(10).fill(from('c')),
    ]);
    expect([0, 10, 20].map((at) => count(said.slice(at, at + 10)))).to.deep.equal([7, 7, 6]);
  });

  it('an identity that succeeded before finds a place in a full queue', async () => {
    const work = new SlowWork(1, 20);
    work.recordResult(own, true);
    const many = Array.from({ length: 30 }, (_, n) => ({ ...own, identity: `uid=u${n}` }));
    const said = await ends(work, [...many, own]);
    expect(said.at(-1)).to.equal('done');
    expect(count(said)).to.equal(10);
  });

  it('work leaves the queue when nobody waits for it any more', async () => {
    const work = new SlowWork(1);
    const { opened, open } = gate();
    const running = work.run(() => opened);
    let leave: (() => void) | undefined;
    const going: Source = {
      ...own,
      onGone: (told) => {
        leave = told;
        return () => undefined;
      },
    };
    const nameOf = (error: Error): string => error.constructor.name;
    const said = work.run(async () => 'done', going).catch(nameOf);
    const stays = work.run(async () => 'done', own);
    expect(work.waitingCount).to.equal(2);
    leave!();
    expect(await said).to.equal('SlowWorkAbandoned');
    expect(work.waitingCount).to.equal(1);
    open();
    await running;
    expect(await stays).to.equal('done');
    expect(await work.run(async () => 'done', { ...own, isGone: true }).catch(nameOf)).to.equal('SlowWorkAbandoned');
    expect(work.waitingCount).to.equal(0);
  });
});
