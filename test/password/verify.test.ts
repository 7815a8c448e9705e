import { expect } from 'chai';
import { verifyPassword } from '../../src/password/index.js';
import { MAX_PASSWORD_BYTES } from '../../src/password/limits.js';
import { fastVectors, slowVectors, unusable, unusableSlow } from './vectors.js';

const bytes = (text: string): Buffer => Buffer.from(text);
/**
 * Passwords that differ from `clear` at the beginning, where only the first eight bytes may count, and by their length.
 */
const wrong = (clear: string): Buffer[] => [bytes('X' + clear.slice(1)), bytes('z' + clear), bytes('q')];

describe('verifyPassword', () => {
  for (const [stored, clear] of fastVectors) {
    it(`verifyPassword answers at once for ${stored.slice(0, 40)}`, () => {
      expect(verifyPassword(bytes(stored), bytes(clear))).to.equal(true);
      for (const other of wrong(clear)) expect(verifyPassword(bytes(stored), other), String(other)).to.equal(false);
    });
  }

  for (const [stored, clear] of slowVectors) {
    it(`verifyPassword answers with a promise for ${stored.slice(0, 40)}`, async () => {
      const result = verifyPassword(bytes(stored), bytes(clear));
      expect(result).to.be.instanceOf(Promise);
      expect(await result).to.equal(true);
      for (const other of wrong(clear))
        expect(await verifyPassword(bytes(stored), other), String(other)).to.equal(false);
    });
  }

  for (const stored of unusable) {
    it(`verifyPassword refuses at once ${stored.slice(0, 60) || 'the empty value'}`, () => {
      for (const clear of ['secret', 'correct hörse', stored, ' ']) {
        if (clear !== '') expect(verifyPassword(bytes(stored), bytes(clear))).to.equal(false);
      }
    });
  }

  for (const stored of unusableSlow) {
    it(`verifyPassword refuses ${stored.slice(0, 60)}`, async () => {
      expect(await verifyPassword(bytes(stored), bytes('correct hörse'))).to.equal(false);
    });
  }

  it('an empty password is never verified, whatever is stored', async () => {
    const empty = Buffer.alloc(0);
    const sha1OfNothing = bytes('{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=');
    for (const stored of [empty, bytes('{CLEARTEXT}'), sha1OfNothing]) {
      expect(await verifyPassword(stored, empty)).to.equal(false);
    }
  });

  it('a password beyond the maximum length is never verified', () => {
    const longest = Buffer.alloc(MAX_PASSWORD_BYTES, 0x61);
    expect(verifyPassword(longest, longest)).to.equal(true);
    const tooLong = Buffer.alloc(MAX_PASSWORD_BYTES + 1, 0x61);
    expect(verifyPassword(tooLong, tooLong)).to.equal(false);
  });

  it('a password with a NUL does not match its beginning under crypt', async () => {
    expect(await verifyPassword(bytes('{CRYPT}abhfCpXqd4GrI'), bytes('correct hörse\0more'))).to.equal(false);
  });

  it('slow hashes are computed off the event loop', async () => {
    const sha = slowVectors.find(([stored]) => stored.startsWith('{CRYPT}$6$saltstring$Mt'))!;
    let settled = false;
    const result = Promise.resolve(verifyPassword(bytes(sha[0]), bytes(sha[1]))).then((matches) => {
      settled = true;
      return matches;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(settled).to.equal(false);
    expect(await result).to.equal(true);
  });

  it('mutated stored values never cause an exception', async () => {
    const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 1e9);
    let state = seed;
    const random = (below: number): number => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >>> 8) % below;
    };
    const cheap = [...fastVectors, ...slowVectors].filter(([stored]) => !/m=4096|rounds=1[24]|\$[567y]\$/.test(stored));
    for (let i = 0; i < 600; i++) {
      const [stored, clear] = cheap[random(cheap.length)]!;
      const value = bytes(stored);
      const at = 1 + random(value.length - 1);
      const cut = random(2) === 0;
      if (!cut) value[at] = (value[at]! + 1 + random(254)) & 0xff;
      const mutated = cut ? value.subarray(0, at) : value;
      const result = await verifyPassword(mutated, bytes(clear));
      // What is changed in the spelling of the scheme, or in spare bits, may still verify.
      if (result)
        expect(mutated.toString().toUpperCase().slice(0, 5), `seed ${seed}`).to.equal(stored.toUpperCase().slice(0, 5));
    }
  });
});
