import { expect } from 'chai';
import { CsnClock, csnMicros } from '../../src/partition/model/csn.js';

describe('entryCSN', () => {
  const NOW = Date.UTC(2026, 2, 1);

  it('rises within a millisecond, and above the last one though the clock went back', () => {
    const clock = new CsnClock('20260301000005.000007Z#000000#000#000000', () => NOW);
    expect(clock.nextCsn()).to.equal('20260301000005.000008Z#000000#000#000000');
    expect(clock.nextCsn()).to.equal('20260301000005.000009Z#000000#000#000000');
    expect(clock.nextCsn('20260301000006.000000Z#000001#000#000000')).to.equal(
      '20260301000006.000001Z#000000#000#000000',
    );
  });

  it('is never that of another process, at the same time either', () => {
    const [one, other] = [1, 200].map((process) => new CsnClock(undefined, () => NOW, process));
    expect(one!.nextCsn()).to.equal('20260301000000.000000Z#000001#000#000000');
    const theirs = other!.nextCsn();
    expect(theirs).to.equal('20260301000000.000000Z#0000c8#000#000000');
    expect(csnMicros(theirs)).to.equal(NOW * 1000);
  });
});
