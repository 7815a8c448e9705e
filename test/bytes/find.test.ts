import { expect } from 'chai';
import { findBytes } from '../../src/bytes/find.js';
import { repeat } from '../schema/random.js';

describe('bytes in bytes', () => {
  it('are found where the runtime finds them', () => {
    repeat(3000, (random) => {
      const bytes = Buffer.from(random.text(['a', 'aaaaaaaa', 'b', 'ab'], 200));
      const from = random.below(bytes.length + 1);
      const start = random.below(bytes.length + 1);
      const part = Buffer.from(bytes.subarray(start, start + 1 + random.below(200)));
      if (random.below(3) === 0 && part.length > 0) part[random.below(part.length)] = 0x63;
      if (part.length === 0) return;
      expect(findBytes(bytes, part, from)).to.equal(bytes.indexOf(part, from));
      const second = bytes.indexOf(part, bytes.indexOf(part, from) + 1);
      const found: number[] = [];
      const at = findBytes(bytes, part, from, (place) => found.push(place) === 2);
      if (found.length === 2) expect([at, found[1]]).to.deep.equal([second, second]);
      else expect(at).to.equal(-1);
    });
  });

  it('that repeat themselves take no longer', () => {
    const many = Buffer.alloc(1 << 20, 'a');
    const part = Buffer.alloc(1 << 18, 'a');
    part[1 << 17] = 0x62;
    expect(findBytes(many, part, 0)).to.equal(-1);
    const words = Buffer.alloc(600_000, 'ab ');
    expect(findBytes(words, Buffer.alloc(300_001, 'ab '), 0, () => false)).to.equal(-1);
  });
});
