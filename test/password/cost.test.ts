import { expect } from 'chai';
import { shaCrypt } from '../../src/password/crypt/sha-crypt.js';
import {
  costOf,
  DEFAULT_ARGON2_COST,
  failureCost,
  hashPassword,
  isAffordable,
  needsUpgrade,
  type PasswordPolicy,
  PasswordVerifier,
  policyCost,
  slowWork,
  unaffordableValues,
  untriedValues,
  verifyPassword,
} from '../../src/password/index.js';
import { MAX_CRYPT_PASSWORD_BYTES } from '../../src/password/limits.js';

const bytes = (text: string): Buffer => Buffer.from(text);
const policy: PasswordPolicy = {
  scheme: 'argon2id',
  argon2: { memoryKiB: 8192, timeCost: 2, parallelism: 1 },
  maxCost: 32 * DEFAULT_ARGON2_COST,
};
const id = Buffer.alloc(24, 1);
const base64 = (length: number): string => Buffer.alloc(length, 7).toString('base64').replace(/=+$/, '');
const argon2 = (m: number, t: number): Buffer =>
  bytes(`{ARGON2}$argon2id$v=19$m=${m},t=${t},p=1$${base64(16)}$${base64(32)}`);
const pbkdf2 = (iterations: number): Buffer =>
  bytes(`{PBKDF2-SHA256}${iterations}$${base64(16)}$${base64(32)}`.replaceAll('+', '.'));
const SHA512_CRYPT =
  '$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjlO/O817G3uBnIFNjnQJuesI68OTLiBFdcbYEdFCoEOfaS35inz1.';

describe('cost of failed binds', () => {
  /** Work that is done for one, in units of `costOf`. */
  async function spentOn(stored: readonly Buffer[], clear = bytes('wrong')): Promise<number> {
    const before = slowWork.totalCost;
    expect(await new PasswordVerifier(policy).verify(id, stored, clear)).to.equal(undefined);
    return slowWork.totalCost - before;
  }

  it('a failed bind costs the same for any name and any stored value', async () => {
    const first = await hashPassword(bytes('a'), policy);
    const second = await hashPassword(bytes('b'), policy, [first]);
    const third = await hashPassword(bytes('c'), policy, [first, second]);
    for (const [name, stored] of Object.entries({
      'no entry, or none': [],
      'a foreign scheme': [bytes('{SASL}x@Y')],
      'no hash': [bytes('{ARGON2}broken')],
      'in the clear': [bytes('right')],
      SSHA: [bytes('{SSHA}MDMxPOJ0RRnnLx0ABLNr2PozekikvkUa')],
      'DES crypt': [bytes('{CRYPT}abhfCpXqd4GrI')],
      'SHA-crypt': [bytes(`{CRYPT}$6$rounds=1000${SHA512_CRYPT}`)],
      PBKDF2: [pbkdf2(4000)],
      'cheap argon2': [argon2(512, 1)],
      'several cheap ones': [argon2(512, 1), pbkdf2(1000), bytes('{CRYPT}abhfCpXqd4GrI')],
      'the policy’s own': [first],
      'three of the policy’s own': [first, second, third],
      'one that costs more than may be': [argon2(262_144, 16)],
    })) {
      expect(await spentOn(stored), name).to.be.closeTo(policyCost(policy), 1);
      expect(failureCost(stored, policy), name).to.be.closeTo(policyCost(policy), 1);
    }
    for (const odd of [bytes('with \0 inside'), Buffer.from([0xff, 0xfe])])
      expect(
        await spentOn([bytes('{CRYPT}$2a$04$abcdefghijklmnopqrstuu2l6KOA9D/61qJO06UBoSQCzHabcdeab')], odd),
      ).to.be.closeTo(policyCost(policy), 1);
  });

  it('a failed bind costs more only where the stored hash costs more, which asks for an upgrade', async () => {
    const alone = await hashPassword(bytes('a'), policy);
    for (const stored of [[argon2(8192, 4)], [alone, await hashPassword(bytes('b'), policy)]]) {
      const cost = await spentOn(stored);
      expect(cost).to.be.greaterThan(policyCost(policy));
      expect(failureCost(stored, policy)).to.be.closeTo(cost, 1);
      expect(needsUpgrade(stored[0]!, policy, stored.slice(1))).to.equal(true);
    }
    expect(needsUpgrade(alone, policy, [])).to.equal(false);
    expect(needsUpgrade(alone, policy, [await hashPassword(bytes('b'), policy, [alone])])).to.equal(false);
  });

  it('values of one salt cost one computation, with the NUL of slapd or without', () => {
    const stored = argon2(65_536, 2);
    const other = bytes(`${stored.toString().replace(/.{4}$/, 'AAAA')}\0K`);
    expect(failureCost([stored, other], policy)).to.equal(costOf(stored));
  });

  it('a failed bind never pays for a hash above the bound, which verifies nothing', async () => {
    const dear = await hashPassword(bytes('right'), { ...policy, argon2: { ...policy.argon2, timeCost: 8 } });
    const strict = { ...policy, maxCost: DEFAULT_ARGON2_COST };
    expect(isAffordable(dear, policy)).to.equal(true);
    expect(isAffordable(dear, strict)).to.equal(false);
    expect(await new PasswordVerifier(policy).verify(id, [dear], bytes('right'))).to.equal(dear);
    const before = slowWork.totalCost;
    expect(await new PasswordVerifier(strict).verify(id, [dear], bytes('right'))).to.equal(undefined);
    expect(slowWork.totalCost - before).to.be.closeTo(policyCost(policy), 1);
    // What the policy itself stores is never too dear.
    expect(isAffordable(dear, { ...strict, argon2: { ...policy.argon2, timeCost: 8 } })).to.equal(true);
  });

  it('the cost of all values of an entry is bounded together: the most expensive values are not tried', async () => {
    const strict = { ...policy, argon2: { ...policy.argon2, memoryKiB: 64 }, maxCost: DEFAULT_ARGON2_COST };
    const others = Array.from({ length: 7 }, (_, n) => pbkdf2(10_000 + n));
    const right = await hashPassword(bytes('right'), strict);
    const told: Buffer[] = [];
    const verifier = new PasswordVerifier(strict, undefined, (entry) => told.push(entry));
    const before = slowWork.totalCost;
    expect(await verifier.verify(id, [...others, right], bytes('wrong'))).to.equal(undefined);
    expect(slowWork.totalCost - before).to.be.within(DEFAULT_ARGON2_COST / 2, DEFAULT_ARGON2_COST);
    expect(told).to.deep.equal([id]);
    expect(failureCost([...others, right], strict)).to.be.at.most(DEFAULT_ARGON2_COST);
    expect(untriedValues([...others, right], strict)).to.deep.equal(others.slice(4));
    expect(unaffordableValues([...others, right], [], strict)).to.deep.equal(others.slice(4));
    expect(unaffordableValues([...others, right], [others[0]!, others[6]!], strict)).to.deep.equal(others.slice(3, 6));
    expect(unaffordableValues([bytes('clear'), right], others, strict)).to.deep.equal([right]);
    expect(
      unaffordableValues([await hashPassword(bytes('other'), strict, [right])], [right, ...others], strict),
    ).to.deep.equal([]);
    expect(await verifier.verify(id, [...others, right], bytes('right'))).to.equal(right);
    expect(await verifier.verify(id, [right], bytes('wrong'))).to.equal(undefined);
    expect(told).to.have.length(2);
  });

  it('verification works in pieces that are scheduled one by one', async () => {
    const strict = { ...policy, argon2: { ...policy.argon2, memoryKiB: 64 } };
    const run = slowWork.run;
    const pieces: boolean[] = [];
    slowWork.run = (work, source, dear) => {
      pieces.push(dear === true);
      return run.call(slowWork, work, source, dear) as never;
    };
    try {
      for (const stored of [
        [],
        [argon2(8, 1), bytes('{ARGON2}broken')],
        [pbkdf2(1000), pbkdf2(1001), argon2(65_536, 2)],
      ])
        await new PasswordVerifier(strict).verify(id, stored, bytes('wrong'));
    } finally {
      slowWork.run = run;
    }
    expect(pieces).to.deep.equal([false, false, false, false, true]);
  });

  it('the cost of SHA-crypt grows with the password up to the bound', async () => {
    const short = 12;
    for (const form of ['5', '6']) {
      const stored = bytes(`{CRYPT}$${form}$saltstring$${'A'.repeat(form === '5' ? 43 : 86)}`);
      const usual = { ...policy, argon2: { memoryKiB: 19_456, timeCost: 2, parallelism: 1 } };
      expect(costOf(stored, 1)).to.be.below(costOf(stored, short));
      expect(costOf(stored, short)).to.be.below(costOf(stored, MAX_CRYPT_PASSWORD_BYTES));
      expect(costOf(stored, MAX_CRYPT_PASSWORD_BYTES)).to.be.at.most(policyCost(usual));
      expect(await verifyPassword(stored, Buffer.alloc(MAX_CRYPT_PASSWORD_BYTES, 'x'))).to.equal(false);
      expect(verifyPassword(stored, Buffer.alloc(MAX_CRYPT_PASSWORD_BYTES + 1, 'x')), 'at once').to.equal(false);
    }
    for (const length of [MAX_CRYPT_PASSWORD_BYTES, MAX_CRYPT_PASSWORD_BYTES + 1]) {
      const key = Buffer.alloc(length, 'x');
      const right = bytes(`{CRYPT}${shaCrypt('$5$rounds=1000$salt$A', key)}`);
      expect(await new PasswordVerifier(policy).verify(id, [right], key)).to.equal(
        length > MAX_CRYPT_PASSWORD_BYTES ? undefined : right,
      );
    }
  });

  it('the cost of a stored hash is known without computing it', () => {
    expect(costOf(argon2(19_456, 2))).to.equal(DEFAULT_ARGON2_COST);
    const yescrypt = (settings: string) => bytes(`{CRYPT}$y$${settings}$abcdefgh$${'A'.repeat(43)}`);
    expect(costOf(yescrypt('jAT')), 'of twice the memory').to.equal(2 * costOf(yescrypt('j9T')));
    expect(isAffordable(yescrypt('j9T'), policy), 'what mkpasswd makes').to.equal(true);
    expect(needsUpgrade(yescrypt('j9T'), policy)).to.equal(true);
    expect(needsUpgrade(yescrypt('j9T'), { ...policy, scheme: 'ssha512' })).to.equal(false);
    for (const huge of [
      '{ARGON2}$argon2id$v=19$m=4294967295,t=4294967295,p=1$c2FsdHNhbHQ$aGFzaA',
      '{PBKDF2-SHA512}1000000000$c2FsdA$aGFzaA',
      `{CRYPT}$6$rounds=999999999${SHA512_CRYPT}`,
      `{CRYPT}$y$jjT$abcdefgh$${'A'.repeat(43)}`,
      `{CRYPT}$7$zU..../....abcdefgh$${'A'.repeat(43)}`,
      '{CRYPT}$2b$31$abcdefghijklmnopqrstuu2l6KOA9D/61qJO06UBoSQCzHabcdeab',
    ])
      expect(isAffordable(bytes(huge), policy), huge).to.equal(false);
    for (const none of ['', 'clear', '{SSHA}x', '{SASL}x', '{ARGON2}x', '{PBKDF2}x', '{NOSUCH}$m=9999999,t=99'])
      expect(costOf(bytes(none)), none).to.equal(0);
  });

  it('several passwords of an entry share a salt, and each is distinguished from the others', async () => {
    const values: Buffer[] = [];
    for (const word of ['one', 'two', 'three']) values.push(await hashPassword(bytes(word), policy, values));
    expect(new Set(values.map((value) => value.toString().split('$')[4])).size).to.equal(1);
    expect(new Set(values.map(String)).size).to.equal(3);
    const verifier = new PasswordVerifier(policy);
    for (const [i, word] of ['one', 'two', 'three'].entries())
      expect(await verifier.verify(id, values, bytes(word))).to.equal(values[i]);
    const other = await hashPassword(bytes('four'), { ...policy, argon2: { ...policy.argon2, memoryKiB: 64 } }, values);
    expect(other.toString().split('$')[4]).not.to.equal(values[0]!.toString().split('$')[4]);
  });
});
