import { expect } from 'chai';
import { FrameSplitter, MAX_FRAME } from '../../../../src/store/hbase/rpc/connection.js';
import { StoreError } from '../../../../src/store/store-error.js';
import { bytes, random } from '../../suite/fixture.js';

function framed(text: string): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(text.length);
  return Buffer.concat([head, bytes(text)]);
}

describe('hbase/rpc frames', () => {
  it('come out whole, however the bytes are cut', function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    for (let round = 0; round < 200; round++) {
      const texts = Array.from({ length: 1 + next(6) }, (_, i) => String(i).repeat(next(200)));
      const stream = Buffer.concat(texts.map(framed));
      const found: string[] = [];
      const splitter = new FrameSplitter((frame) => found.push(frame.toString('latin1')));
      for (let at = 0; at < stream.length; ) {
        const end = at + 1 + next(next(3) === 0 ? 3 : 300);
        splitter.push(stream.subarray(at, end));
        at = end;
      }
      expect(found, `round ${round}`).to.deep.equal(texts);
    }
  });

  it('longer than allowed are refused by their length alone', () => {
    const splitter = new FrameSplitter(() => expect.fail('no frame came'));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(MAX_FRAME + 1);
    splitter.push(head.subarray(0, 3));
    expect(() => splitter.push(head.subarray(3)))
      .to.throw(StoreError)
      .with.property('code', 'corrupt');
  });
});
