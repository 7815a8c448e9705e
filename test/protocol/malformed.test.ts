import { expect } from 'chai';
import { decodeRequest } from '../../src/protocol/decode.js';
import { decodeResponse } from '../../src/protocol/decode-response.js';
import { encodeRequest } from '../../src/protocol/encode.js';
import type { RequestMessage } from '../../src/protocol/ldap-messages.js';
import { defaultLimits } from '../../src/protocol/limits.js';
import { ProtocolError } from '../../src/protocol/reader.js';
import { rounds } from '../rounds.js';
import { bool, enumerated, int, message, nested, searchWith, seq, str, tlv } from './bytes.js';
import { type Random, seeded } from './random.js';
import { respond } from './respond.js';
import { requestMessages, responseMessages } from './samples.js';

const samples = requestMessages.map(encodeRequest);

/** The error that decoding ends with; anything but ProtocolError is thrown on. */
function attempt(bytes: Buffer, end = bytes.length): ProtocolError | RequestMessage {
  try {
    return decodeRequest(bytes, 0, end);
  } catch (error) {
    if (error instanceof ProtocolError && error.offset >= 0 && error.offset <= end) return error;
    throw error;
  }
}

function refused(bytes: Buffer): ProtocolError {
  const outcome = attempt(bytes);
  if (outcome instanceof ProtocolError) return outcome;
  throw new Error(`was decoded: ${JSON.stringify(outcome)}`);
}

const MUTATED = rounds(30_000, 300_000);

describe('protocol: malformed messages', () => {
  const { stackTraceLimit } = Error;
  before('a million errors without stacks', () => {
    Error.stackTraceLimit = 0;
  });
  after(() => {
    Error.stackTraceLimit = stackTraceLimit;
  });

  it('every request truncated at any byte is refused', () => {
    for (const bytes of samples) {
      const cuts = Array.from({ length: bytes.length }, (_, cut) => cut);
      const decoded = cuts.filter((cut) => !(attempt(bytes, cut) instanceof ProtocolError));
      expect(decoded, `${bytes.toString('hex')} cut at`).to.deep.equal([]);
    }
  });

  it('every request truncated at any byte with a matching outer length is refused', () => {
    for (const bytes of samples) {
      const header = bytes[1]! > 0x80 ? 2 + (bytes[1]! & 0x7f) : 2;
      for (let cut = header; cut < bytes.length; cut++) attempt(seq(bytes.subarray(header, cut)));
    }
  });

  it('every byte of every request replaced by every value is decoded or refused', () => {
    for (const sample of samples.filter((_, i) => i % 2 === 0 || i === 1)) {
      const bytes = Buffer.from(sample);
      for (let at = 0; at < bytes.length; at++) {
        const byte = bytes[at]!;
        for (let value = 0; value < 256; value++) {
          bytes[at] = value;
          attempt(bytes);
        }
        bytes[at] = byte;
      }
    }
  });

  it(
    `${MUTATED} mutated requests are decoded or refused`,
    seeded((random) => {
      let decoded = 0;
      for (let i = 0; i < MUTATED; i++) {
        if (!(attempt(mutate(random.pick(samples), random)) instanceof ProtocolError)) decoded++;
      }
      expect(decoded, `decoded, of ${MUTATED}`).to.be.within(MUTATED / 300, (MUTATED * 5) / 6);
    }),
  );

  it(
    'mutated responses are decoded or refused by the client side',
    seeded((random) => {
      const responses = responseMessages.map(respond);
      for (let i = 0; i < MUTATED / 2; i++) {
        const bytes = mutate(random.pick(responses), random);
        expectOnly(() => decodeResponse(bytes));
      }
    }),
  );
});

function expectOnly(body: () => unknown): void {
  try {
    body();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
  }
}

/**
 * One to four changes: a byte, a bit, a run repeated, removed or overwritten; the outer length is repaired now and
 * then.
 */
function mutate(sample: Buffer, random: Random): Buffer {
  let bytes = Buffer.from(sample);
  for (let n = 1 + random.below(4); n > 0 && bytes.length > 0; n--) {
    const at = random.below(bytes.length);
    const run = bytes.subarray(at, at + 1 + random.below(8));
    const rest = bytes.subarray(at + run.length);
    switch (random.below(5)) {
      case 0:
        bytes[at] = random.below(256);
        break;
      case 1:
        bytes[at]! ^= 1 << random.below(8);
        break;
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), run, run, rest]);
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, at), rest]);
        break;
      default:
        bytes[at] = random.pick([0, 0x7f, 0x80, 0x81, 0x84, 0x85, 0xff]);
    }
  }
  if (bytes.length >= 2 && bytes.length < 130 && random.chance(2)) bytes[1] = bytes.length - 2;
  return bytes;
}

describe('protocol: information about refused requests', () => {
  it('the error of a refused request has the messageID and operation that were read', () => {
    expect(refused(Buffer.from([0x30, 0]))).to.include({ messageId: undefined, op: undefined, fatal: true });
    expect(refused(message())).to.include({ messageId: 5, op: undefined, fatal: true });
    const bind = refused(message(tlv(0x60, int(3), str('cn=a'))));
    expect(bind).to.include({ messageId: 5, op: 'bind', fatal: true, result: 'protocolError' });
    expect(bind.message).to.equal('authentication is missing (byte 16 of the message)');
  });

  it('an unknown operation, a response and an HTTP body are refused', () => {
    expect(refused(message(tlv(0x7e))).message).to.contain('0x7e');
    expect(refused(message(tlv(0x7e)))).to.include({ messageId: 5, op: undefined, fatal: true });
    const response = refused(message(tlv(0x65, enumerated(0), str(''), str(''))));
    expect(response.message).to.contain('searchDone is sent by servers only');
    expect(response).to.include({ messageId: 5, op: undefined });
  });

  it('a messageID that is 0, negative or too long is refused', () => {
    for (const id of [int(0), int(0xff), int(0x80, 0, 0, 0), int(0, 0x80, 0, 0, 0), tlv(2)]) {
      expect(refused(seq(id, tlv(0x42)))).to.include({ messageId: undefined, fatal: true });
    }
    expect(decodeResponse(seq(int(0), tlv(0x79))).id).to.equal(0);
    expect(() => decodeResponse(seq(int(0xff), tlv(0x79)))).to.throw(ProtocolError, 'messageID is -1');
  });

  it('lengths that are indefinite, over four bytes or past the end are refused', () => {
    const within = (...octets: number[]): string =>
      refused(message(tlv(0x60, int(3), Buffer.from([4, ...octets])))).message;
    expect(within(0x80, 0, 0)).to.contain('indefinite');
    expect(within(0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0)).to.contain('9 bytes');
    expect(within(0x84, 0xff, 0xff, 0xff, 0xff)).to.contain('4294967295 bytes');
    expect(within(0x84, 0x7f)).to.contain('cut inside its length');
    expect(within(3, 1, 2)).to.contain('does not fit into the 2');
  });

  it('surplus bytes are refused', () => {
    expect(refused(Buffer.concat([message(tlv(0x42)), Buffer.from([0])])).message).to.contain('1 bytes follow');
    expect(refused(message(tlv(0x42, [1]))).message).to.contain('has content');
    expect(refused(message(tlv(0x42), str('x'))).message).to.contain('unexpected tag 0x04');
    expect(refused(message(tlv(0x42), tlv(0xa0), tlv(0xa0))).message).to.contain('unexpected tag 0xa0');
    const twice = tlv(0x6c, str('cn=a'), str('cn=b'), bool(true), tlv(0x80, 'o=a'), tlv(0x80, 'o=b'));
    expect(refused(message(twice)).message).to.contain('unexpected tag 0x80');
  });

  it('a sound encoding with unacceptable content is refused without a fatal error', () => {
    const search = (scope: number, limit: number): Buffer =>
      message(
        tlv(0x63, str(''), enumerated(scope), enumerated(0), int(limit), int(0), bool(false), tlv(0x87, 'a'), seq()),
      );
    const cases: [Buffer, string][] = [
      [search(4, 0), 'scope is 4'],
      [search(0, 0xff), 'sizeLimit is -1'],
      [message(tlv(0x4a, [0x6f, 0x3d, 0xc3, 0x28])), 'not valid UTF-8'],
      [message(tlv(0x4a, Buffer.alloc(100, 0xed))), 'not valid UTF-8'],
      [message(tlv(0x68, str('o=a'), seq(seq(str('o'), tlv(0x31))))), 'no value'],
      [searchWith(tlv(0xa4, str('a'), seq())), 'without a substring'],
      [searchWith(tlv(0xa4, str('a'), seq(tlv(0x80)))), 'substring is empty'],
      [searchWith(tlv(0xa9, tlv(0x83, 'v'))), 'neither attribute nor matching rule'],
      [message(tlv(0x42), tlv(0xa0, seq(str('dc=x')))), 'control type is not a numeric OID'],
    ];
    for (const [bytes, why] of cases) {
      expect(refused(bytes).message).to.contain(why);
      expect(refused(bytes)).to.include({ fatal: false, messageId: 5, result: 'protocolError' });
    }
  });

  it('an unknown authentication choice is refused', () => {
    const error = refused(message(tlv(0x60, int(3), str(''), tlv(0xa5, str('x')))));
    expect(error).to.include({ fatal: false, messageId: 5, op: 'bind', result: 'authMethodNotSupported' });
  });

  it('an extended request whose OID is a DN, empty, malformed or huge is refused', () => {
    for (const oid of ['dc=x', '', '1', '1.', '.1', '1..2', '01.2', '1.02', '1.2 ', `1.${'2'.repeat(254_000)}`]) {
      const error = refused(message(tlv(0x77, tlv(0x80, oid))));
      expect(error).to.include({ fatal: false, op: 'extended' });
      expect(error.message.length).to.be.below(120);
    }
    expect(attempt(message(tlv(0x77, tlv(0x80, `0.1.${'2'.repeat(252)}`))))).to.have.property('id', 5);
  });
});

describe('protocol: limits of one message', () => {
  const deep = (tag: number, depth: number): Buffer => searchWith(nested(tag, depth));

  it('filters are accepted up to the allowed depth', () => {
    for (const tag of [0xa0, 0xa1, 0xa2]) {
      expect(attempt(deep(tag, defaultLimits.maxFilterDepth))).to.have.property('id', 5);
      for (const depth of [101, 1000, 5000, 100_000]) {
        const error = refused(deep(tag, depth));
        expect(error.message).to.contain('filter is nested over 100 deep');
        expect(error).to.include({ fatal: false, messageId: 5, op: 'search' });
      }
    }
  });

  it('SEQUENCEs nested a million deep are skipped or refused', () => {
    const stack = nested(0x30, 1_000_000);
    expect(refused(seq(stack)).message).to.contain('messageID');
    expect(refused(message(stack)).message).to.contain('protocolOp 0x30');
    expect(refused(message(tlv(0x68, str('o=a'), stack))).fatal).to.equal(true);
    expect(attempt(message(tlv(0x42), nested(0xa5, 1_000_000)))).to.have.property('id', 5);
  });

  it('limits of counts are enforced and named in the diagnostic message', () => {
    const { maxControls, maxFilterNodes, maxSelectedAttributes, maxAttributes, maxValues } = defaultLimits;
    const many = (count: number, part: Buffer): Buffer => Buffer.concat(Array<Buffer>(count).fill(part));
    const add = (count: number, attribute: Buffer): Buffer =>
      message(tlv(0x68, str('o=a'), seq(many(count, attribute))));
    const cases: [(count: number) => Buffer, number, string][] = [
      [(n) => message(tlv(0x42), tlv(0xa0, many(n, seq(str('1.2'))))), maxControls, 'controls'],
      [(n) => searchWith(tlv(0xa1, many(n - 1, tlv(0x87, 'a')))), maxFilterNodes, 'items'],
      [(n) => searchWith(tlv(0xa4, str('a'), seq(many(n - 1, tlv(0x81, 'a'))))), maxFilterNodes, 'items'],
      [(n) => searchWith(tlv(0x87, 'a'), ...Array<string>(n).fill('cn')), maxSelectedAttributes, 'attributes'],
      [(n) => add(n, seq(str('o'), tlv(0x31, str('')))), maxAttributes, 'attributes'],
      [(n) => add(1, seq(str('o'), tlv(0x31, many(n, str('v'))))), maxValues, 'values'],
      [
        (n) => message(tlv(0x66, str(''), seq(many(n, seq(enumerated(1), seq(str('o'), tlv(0x31))))))),
        maxAttributes,
        'changes',
      ],
    ];
    for (const [make, limit, what] of cases) {
      expect(attempt(make(limit)), what).to.have.property('id', 5);
      const error = refused(make(limit + 1));
      expect(error.message).to.contain(`over ${limit} ${what}`);
      expect(error).to.include({ fatal: false, messageId: 5 });
    }
  });

  it('limits given by the caller are enforced', () => {
    const bytes = deep(0xa2, 3);
    const decode = (maxFilterDepth: number): unknown =>
      decodeRequest(bytes, 0, bytes.length, { ...defaultLimits, maxFilterDepth });
    expect(decode(3)).to.have.property('id', 5);
    expect(() => decode(2)).to.throw(ProtocolError, 'over 2 deep');
  });

  it('a filter value of a megabyte is a view', () => {
    const value = Buffer.alloc(1 << 20, '%s\0*(');
    const bytes = searchWith(tlv(0xa3, str('cn'), str(value)));
    const { request } = decodeRequest(bytes, 0, bytes.length);
    if (request.op !== 'search' || request.filter.type !== 'equal') throw new Error('not the search that was sent');
    expect(request.filter.value.equals(value)).to.equal(true);
    expect(request.filter.value.buffer).to.equal(bytes.buffer);
  });

  it('10,000 selected names are accepted, including unusual and repeated names', () => {
    const names = [
      '1.1',
      '*',
      '+',
      'dn',
      'dn',
      '',
      'cn;lang-de;binary',
      ...Array.from({ length: 9993 }, (_, i) => `a${i}`),
    ];
    expect(attempt(searchWith(tlv(0x87, 'a'), ...names)))
      .to.have.nested.property('request.attributes')
      .deep.equal(names);
  });
});
