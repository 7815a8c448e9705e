import { expect } from 'chai';
import { encodeRequest } from '../../src/protocol/encode.js';
import { Framer, HEAD_BYTES } from '../../src/protocol/framing.js';
import { ProtocolError } from '../../src/protocol/reader.js';
import { int, seq, str, tlv } from './bytes.js';
import { seeded } from './random.js';
import { requestMessages } from './samples.js';

const maxMessageBytes = 1 << 20;
const messages = requestMessages.map(encodeRequest);

/** Every message that comes out, copied. */
function drain(framer: Framer): Buffer[] {
  const out: Buffer[] = [];
  for (let frame = framer.next(); frame; frame = framer.next()) {
    out.push(Buffer.from(frame.buffer.subarray(frame.start, frame.end)));
  }
  return out;
}

function refusal(bytes: Buffer | string, max = maxMessageBytes): ProtocolError {
  const framer = new Framer({ maxMessageBytes: max });
  framer.push(Buffer.from(bytes as Buffer));
  let caught: unknown;
  try {
    framer.next();
  } catch (error) {
    caught = error;
  }
  expect(caught).to.be.instanceOf(ProtocolError);
  expect(() => framer.next(), 'refuses for good').to.throw(ProtocolError);
  const error = caught as ProtocolError;
  expect(error.fatal).to.equal(true);
  expect(error.result).to.equal('protocolError');
  return error;
}

describe('protocol: framing', () => {
  it('whole messages in one chunk are returned as views', () => {
    const framer = new Framer({ maxMessageBytes });
    const chunk = Buffer.concat(messages);
    framer.push(chunk);
    let at = 0;
    for (const message of messages) {
      expect(framer.next()).to.deep.include({ start: at, end: at + message.length });
      at += message.length;
    }
    expect(framer.next()).to.equal(undefined);
    framer.push(chunk);
    expect(framer.next()!.buffer).to.equal(chunk);
  });

  it('a message split in two anywhere is returned whole once it is complete', () => {
    for (const message of messages) {
      for (let cut = 1; cut < message.length; cut++) {
        const framer = new Framer({ maxMessageBytes });
        framer.push(message.subarray(0, cut));
        expect(framer.next(), `cut at ${cut}`).to.equal(undefined);
        framer.push(message.subarray(cut));
        const out = drain(framer);
        expect(out.length === 1 && out[0]!.equals(message), `cut at ${cut}`).to.equal(true);
        expect(framer.pendingBytes).to.equal(0);
      }
    }
  });

  it(
    'messages are framed from random chunks that are read at random times',
    seeded((random) => {
      const stream = Buffer.concat(messages);
      for (let round = 0; round < 100; round++) {
        const framer = new Framer({ maxMessageBytes });
        const out: Buffer[] = [];
        const longest = 1 + random.below(random.pick([3, 40, 5000]));
        for (let at = 0, next = 0; at < stream.length; at = next) {
          next = at + random.below(longest + 1);
          framer.push(stream.subarray(at, next));
          if (random.chance(3)) out.push(...drain(framer));
        }
        out.push(...drain(framer));
        expect(Buffer.concat(out).equals(stream)).to.equal(true);
        expect(out.length).to.equal(messages.length);
      }
    }),
  );

  it('a message of 1 MB is framed from single bytes', () => {
    const message = seq(str(Buffer.alloc(1 << 20, 7)));
    const framer = new Framer({ maxMessageBytes: message.length });
    const out: Buffer[] = [];
    for (let i = 0; i < message.length; i++) {
      framer.push(message.subarray(i, i + 1));
      out.push(...drain(framer));
    }
    expect(out.length).to.equal(1);
    expect(out[0]!.equals(message)).to.equal(true);
  });

  it('the framer allocates by the bytes received, not by the claimed length', () => {
    const { allocUnsafeSlow } = Buffer;
    let allocated = 0;
    Buffer.allocUnsafeSlow = (size) => {
      allocated += size;
      return allocUnsafeSlow(size);
    };
    const framers = Array.from({ length: 200 }, () => {
      const framer = new Framer({ maxMessageBytes: 0x7fffffff + 6 });
      framer.push(Buffer.from([0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 2, 1, 1]));
      expect(framer.next()).to.equal(undefined);
      for (let i = 0; i < 100; i++) {
        framer.push(Buffer.alloc(10));
        expect(framer.next()).to.equal(undefined);
      }
      return framer;
    });
    Buffer.allocUnsafeSlow = allocUnsafeSlow;
    expect(allocated).to.be.within(framers.length * 1009, framers.length * 2048);
    expect(framers.map((framer) => framer.pendingBytes)).to.deep.equal(framers.map(() => 1009));
  });

  it('errors describe the problem of a message header', () => {
    expect(refusal(Buffer.from([0x30, 0x80, 2, 1])).message).to.contain('indefinite');
    expect(refusal(Buffer.from([0x30, 0x85])).message).to.contain('5 bytes');
    expect(refusal(Buffer.from([0x30, 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 1])).message).to.contain('9 bytes');
    expect(refusal(Buffer.from([0x30, 0xff])).message).to.contain('127 bytes');
    expect(refusal(Buffer.from([0x30, 0x84, 0x7f, 0xff, 0xff, 0xff])).message).to.contain('2147483653');
    expect(refusal(Buffer.from([0x30, 0x84, 0xff, 0xff, 0xff, 0xff])).message).to.contain('4294967301');
    expect(refusal('GET / HTTP/1.1\r\n\r\n').message).to.contain('0x47 (HTTP?)');
    expect(refusal(Buffer.from([0x16, 3, 1, 2, 0])).message).to.contain('TLS');
    expect(refusal(Buffer.from([0x42, 0])).message).to.match(/begins with 0x42 \(byte/);
    expect(refusal(Buffer.from([0xff, 0xf4, 0xff, 0xfd, 6])).message).to.contain('0xff');
  });

  it('the limit of the message size includes the header', () => {
    const message = seq(str(Buffer.alloc(90)));
    expect(refusal(message, message.length - 1).message).to.contain(`${message.length} bytes`);
    const framer = new Framer({ maxMessageBytes: message.length });
    framer.push(message);
    expect(drain(framer)).to.have.length(1);
  });

  it('messages before an invalid byte are still returned', () => {
    const framer = new Framer({ maxMessageBytes });
    framer.push(Buffer.concat([messages[0]!, tlv(4, 'x')]));
    expect(framer.next()).to.not.equal(undefined);
    expect(() => framer.next()).to.throw(ProtocolError, '0x04');
  });

  it('invalid headers are refused when split at any byte', () => {
    const bad = Buffer.from([0x30, 0x84, 0xff, 0xff, 0xff, 0xff]);
    for (let cut = 1; cut < bad.length; cut++) {
      const framer = new Framer({ maxMessageBytes });
      framer.push(bad.subarray(0, cut));
      expect(framer.next()).to.equal(undefined);
      framer.push(bad.subarray(cut));
      expect(() => framer.next()).to.throw(ProtocolError, '4294967301');
    }
  });

  it('admission is asked once the head of a message is there, however split; dropped messages are skipped', () => {
    const long = seq(int(7), tlv(0x68, Buffer.alloc(500)));
    const short = seq(int(8), tlv(0x42));
    const bytes = Buffer.concat([long, short, long, long, short]);
    for (let piece = 1; piece <= bytes.length; piece += piece < 40 ? 1 : 37) {
      const verdicts = ['drop', 'wait', 'keep', 'wait', 'drop'] as const;
      const heads: number[] = [];
      let asked = 0;
      const framer = new Framer({
        maxMessageBytes,
        alwaysAdmittedBytes: 100,
        admit: (head, total) => {
          expect(total).to.equal(long.length);
          expect(head.subarray(0, HEAD_BYTES)).to.deep.equal(long.subarray(0, HEAD_BYTES));
          heads.push(head.length);
          return verdicts[asked++]!;
        },
      });
      const lengths: number[] = [];
      for (let at = 0; at < bytes.length; at += piece) {
        framer.push(Buffer.from(bytes.subarray(at, at + piece)));
        for (let tries = 0; tries < 4; tries++) {
          for (let frame = framer.next(); frame; frame = framer.next()) lengths.push(frame.end - frame.start);
        }
      }
      expect(lengths, `${piece} bytes at a time`).to.deep.equal([short.length, long.length, short.length]);
      expect(asked).to.equal(verdicts.length);
      expect(framer.hasPartialMessage).to.equal(false);
    }
  });
});
