import { expect } from 'chai';
import {
  clearText,
  DEFAULT_POLICY,
  describeKind,
  hashPassword,
  hashPasswordFast,
  isHashed,
  isSlow,
  needsUpgrade,
  type PasswordPolicy,
  passwordKind,
  verifyPassword,
} from '../../src/password/index.js';
import { fastVectors, slowVectors } from './vectors.js';

const bytes = (text: string): Buffer => Buffer.from(text);
const small: PasswordPolicy = { scheme: 'argon2id', argon2: { memoryKiB: 64, timeCost: 2, parallelism: 1 } };
const weak: PasswordPolicy = { ...small, scheme: 'ssha512' };

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe('password policy', () => {
  it('passwords are stored as argon2id with the parameters of the policy', async () => {
    const stored = await hashPassword(bytes('geheim'), small);
    expect(stored.toString()).to.match(
      /^\{ARGON2\}\$argon2id\$v=19\$m=64,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/,
    );
    expect(await verifyPassword(stored, bytes('geheim'))).to.equal(true);
    expect(await verifyPassword(stored, bytes('Geheim'))).to.equal(false);
    expect((await hashPassword(bytes('geheim'))).toString()).to.include('$m=19456,t=2,p=1$');
  });

  it('passwords are stored as SSHA512 with a new salt each time', async () => {
    const values = new Set<string>();
    for (let i = 0; i < 1000; i++) values.add(hashPasswordFast(bytes('geheim')).toString());
    expect(values.size).to.equal(1000);
    for (const value of values) expect(verifyPassword(bytes(value), bytes('geheim'))).to.equal(true);
    expect((await hashPassword(bytes('geheim'), weak)).toString()).to.match(/^\{SSHA512\}[A-Za-z0-9+/]{107}=$/);
  });

  it('a password that cannot be stored is refused without repeating it', async () => {
    for (const clear of [Buffer.alloc(0), Buffer.alloc(1025, 'geheim')]) {
      expect(() => hashPasswordFast(clear))
        .to.throw(RangeError)
        .with.property('message')
        .not.contain('geheim');
      expect(await rejection(hashPassword(clear, small))).to.be.instanceOf(RangeError);
    }
    const excessive = { ...small, argon2: { memoryKiB: 2 ** 30, timeCost: 2, parallelism: 1 } };
    expect(await rejection(hashPassword(bytes('geheim'), excessive))).to.be.instanceOf(TypeError);
  });

  it('password schemes are recognized by their prefix in any case', () => {
    for (const hashed of ['{ssha}abc', '{PBKDF2-SHA256}1', '{nosuch}abc'])
      expect(isHashed(bytes(hashed)), hashed).to.equal(true);
    for (const clear of ['', '{', '{}', '{}abc', '{SSHA', 'SSHA}', ' {SSHA}', '{a b}c', '{' + 'A'.repeat(40) + '}'])
      expect(isHashed(bytes(clear)), clear).to.equal(false);
  });

  it('hashed passwords are distinguished from clear passwords', () => {
    for (const [stored] of slowVectors) expect(isHashed(bytes(stored)) && isSlow(bytes(stored)), stored).to.equal(true);
    for (const [stored] of fastVectors) {
      expect(isHashed(bytes(stored)), stored).to.equal(/^\{[sm]/i.test(stored));
      expect(isSlow(bytes(stored)), stored).to.equal(false);
    }
    expect(isHashed(bytes('{SASL}user@REALM'))).to.equal(true);
    expect(isHashed(bytes('{hello}world'))).to.equal(true);
    for (const [stored] of slowVectors) expect(passwordKind(bytes(stored)), stored).to.equal('hashed');
    for (const [stored] of fastVectors)
      expect(passwordKind(bytes(stored)), stored).to.equal(/^\{[sm]/i.test(stored) ? 'hashed' : 'clear');
    for (const foreign of [
      '{SASL}user@REALM',
      '{hello}world',
      '{x-vendor/2.0_a}',
      '{Nosuch}',
      '{crypt}$gy$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
      '{CRYPT}$y$jFT$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9',
      '{CRYPT}$6$rounds=999999999$saltstring$abc',
      '{CRYPT}*',
      '{ssha}x',
      '{PBKDF2-SHA256}1000$c2FsdA$aGFzaA',
      '{ARGON2}$argon2id$v=19$m=8',
    ])
      expect(passwordKind(bytes(foreign)), foreign).to.equal('foreign');
    for (const clear of [
      '{}x',
      '{hello world}x',
      '{hellø}x',
      '{hello',
      'x{SSHA}x',
      `{${'x'.repeat(33)}}x`,
      '{CLEARTEXT}x',
    ])
      expect(passwordKind(bytes(clear)), clear).to.equal('clear');
    expect(isHashed(bytes('{ssha}x'))).to.equal(true);
    expect(describeKind(bytes('{crypt}$y$j9T$abc$def'))).to.equal('{CRYPT}$y$');
    expect(describeKind(bytes('{CRYPT}abhfCpXqd4GrI'))).to.equal('{CRYPT}');
    expect(describeKind(bytes('{hello}world'))).to.equal('an unknown {SCHEME}');
    expect(clearText(bytes('{cleartext}abc')).toString()).to.equal('abc');
    expect(clearText(bytes('{hello}world')).toString()).to.equal('{hello}world');
  });

  it('weaker hashes than those of the policy ask for an upgrade', async () => {
    for (const [stored] of [...fastVectors, ...slowVectors]) expect(needsUpgrade(bytes(stored)), stored).to.equal(true);
    expect(needsUpgrade(await hashPassword(bytes('a')))).to.equal(false);
    const own = await hashPassword(bytes('a'), small);
    expect(needsUpgrade(own, small)).to.equal(false);
    expect(needsUpgrade(own, DEFAULT_POLICY)).to.equal(true);
    expect(needsUpgrade(bytes('{SASL}user@REALM'))).to.equal(false);
    for (const [stored, expected] of [
      ['{SSHA512}abc', false],
      ['{CRYPT}abhfCpXqd4GrI', true],
      ['{CRYPT}$6$s$abc', false],
      ['{SHA512}abc', true],
      ['secret', true],
    ] as const)
      expect(needsUpgrade(bytes(stored), weak), stored).to.equal(expected);
  });
});
