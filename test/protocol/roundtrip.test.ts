import { expect } from 'chai';
import type { Filter, PartialAttribute } from '../../src/ldap/ldap-types.js';
import { decodeRequest } from '../../src/protocol/decode.js';
import { decodeResponse } from '../../src/protocol/decode-response.js';
import { encodeRequest } from '../../src/protocol/encode.js';
import type { RequestMessage } from '../../src/protocol/ldap-messages.js';
import { opTags } from '../../src/protocol/tags.js';
import { type Random, seeded } from './random.js';
import { respond } from './respond.js';
import { requestMessages, responseMessages } from './samples.js';

/** The message, placed between other bytes that must not be read. */
function amid(bytes: Buffer): [Buffer, number, number] {
  return [Buffer.concat([Buffer.alloc(3, 0xff), bytes, Buffer.alloc(3, 0xff)]), 3, 3 + bytes.length];
}

const texts = [
  '',
  'cn',
  'uid',
  'dc=example,dc=com',
  'Zürich',
  '日本',
  'x'.repeat(81),
  'y'.repeat(300),
  `${'z'.repeat(63)}é`,
];

function randomFilter(random: Random, depth: number): Filter {
  const attribute = random.pick(texts);
  const value = random.bytes(40);
  switch (random.below(depth > 0 ? 7 : 4)) {
    case 0:
      return { type: random.pick(['equal', 'greaterOrEqual', 'lessOrEqual', 'approx'] as const), attribute, value };
    case 1:
      return { type: 'present', attribute };
    case 2: {
      const part = (): Buffer => Buffer.concat([Buffer.from('.'), random.bytes(150)]);
      const [initial, final] = [random.chance(2) ? part() : undefined, random.chance(2) ? part() : undefined];
      const any = random.list(3, part);
      return { type: 'substring', attribute, initial, any: initial || final ? any : [...any, part()], final };
    }
    case 3:
      return {
        type: 'extensible',
        rule: random.chance(2) ? 'r' : undefined,
        attribute,
        value,
        dnAttributes: random.chance(2),
      };
    case 4:
      return { type: 'not', filter: randomFilter(random, depth - 1) };
    default:
      return {
        type: random.pick(['and', 'or'] as const),
        filters: random.list(4, () => randomFilter(random, depth - 1)),
      };
  }
}

function randomAttributes(random: Random): PartialAttribute[] {
  return random.list(6, () => ({
    type: random.pick(texts),
    values: [Buffer.alloc(0), ...random.list(5, () => random.bytes(200))],
  }));
}

function randomRequest(random: Random): RequestMessage {
  const id = 1 + random.below(0x7fffffff);
  const dn = random.pick(texts);
  if (random.chance(2)) return { id, request: { op: 'add', dn, attributes: randomAttributes(random) }, controls: [] };
  const request = {
    op: 'search',
    base: dn,
    scope: random.pick(['base', 'one', 'sub', 'subordinate'] as const),
    deref: random.pick(['never', 'searching', 'finding', 'always'] as const),
    sizeLimit: random.below(0x80000000),
    timeLimit: random.below(0x80000000),
    typesOnly: random.chance(2),
    filter: randomFilter(random, 5),
    attributes: random.list(5, () => random.pick(texts)),
  } as const;
  return {
    id,
    request,
    controls: random.list(3, () => ({ oid: '1.2.3', critical: random.chance(2), value: random.bytes(99) })),
  };
}

describe('protocol: round trips', () => {
  it('the samples cover every operation', () => {
    const ops = [...requestMessages.map((m) => m.request.op), ...responseMessages.map((m) => m.response.op)];
    expect(new Set<string>(ops)).to.deep.equal(new Set(Object.keys(opTags)));
  });

  for (const [i, message] of requestMessages.entries()) {
    it(`request ${i} is encoded and decoded: ${message.request.op}, ${message.controls.length} controls`, () => {
      expect(decodeRequest(...amid(encodeRequest(message)))).to.deep.equal(message);
    });
  }

  for (const [i, message] of responseMessages.entries()) {
    it(`response ${i} is encoded and decoded: ${message.response.op}, ${message.controls?.length ?? 0} controls`, () => {
      expect(decodeResponse(...amid(respond(message)))).to.deep.equal(message);
    });
  }

  it('referrals are omitted from a result that is not a referral', () => {
    const result = { op: 'searchDone', code: 0, matchedDN: '', message: '' } as const;
    const response = decodeResponse(respond({ id: 1, response: { ...result, referrals: ['ldap://x'] } })).response;
    expect(response).to.deep.equal(result);
  });

  it(
    'random requests are encoded and decoded',
    seeded((random) => {
      for (let i = 0; i < 1500; i++) {
        const message = randomRequest(random);
        expect(decodeRequest(...amid(encodeRequest(message)))).to.deep.equal(message);
      }
    }),
  );

  it(
    'random entries are encoded and decoded',
    seeded((random) => {
      for (let i = 0; i < 1000; i++) {
        const response = { op: 'searchEntry', dn: random.pick(texts), attributes: randomAttributes(random) } as const;
        expect(decodeResponse(...amid(respond({ id: i, response })))).to.deep.equal({ id: i, response });
      }
    }),
  );
});
