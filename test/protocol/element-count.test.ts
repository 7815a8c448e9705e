import { expect } from 'chai';
import { countElements } from '../../src/protocol/element-count.js';
import { encodeRequest } from '../../src/protocol/encode.js';
import type { Control, Request } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { searchRequest } from '../server/raw-client.js';
import { Random } from './random.js';

const MANY = 1_000_000;
const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 1_000_000);

function count(request: Request, controls: readonly Control[] = []): number {
  const bytes = encodeRequest({ id: 7, request, controls });
  return countElements(bytes, 0, bytes.length, MANY);
}

const values = (n: number): Buffer[] => Array.from({ length: n }, (_, i) => Buffer.from(`value ${i}`.repeat(20)));

describe('protocol: the count of BER elements', () => {
  it('terms, substrings, selected attributes and values count, each with its parts', () => {
    const alone = count(searchRequest(''));
    expect(alone).to.equal(11);
    const terms = values(500).map((value) => ({ type: 'equal', attribute: 'cn', value }) as const);
    // The set takes the place of the term that the search has by itself.
    expect(count(searchRequest('', { filter: { type: 'or', filters: terms } }))).to.equal(alone + 500 * 3);
    const any = values(50);
    const substring = { type: 'substring', attribute: 'cn', initial: undefined, any, final: undefined } as const;
    expect(count(searchRequest('', { filter: substring }))).to.equal(alone + 2 + 50);
    expect(count(searchRequest('', { attributes: values(40).map(String) }))).to.equal(alone + 40);
    const attribute = { type: 'description', values: values(200) };
    const add = (attributes: (typeof attribute)[]): Request => ({ op: 'add', dn: 'cn=x', attributes });
    expect(count(add([attribute]))).to.equal(count(add([])) + 3 + 200);
    const modify = (n: number): Request => ({
      op: 'modify',
      dn: 'cn=x',
      changes: Array(n).fill({ operation: 'add', attribute }),
    });
    expect(count(modify(3))).to.equal(count(modify(0)) + 3 * (2 + 3 + 200));
  });

  it('elements within the value of a control or an attribute do not count', () => {
    const sequence = Buffer.from('300a040464633d78300204 00'.replace(' ', ''), 'hex');
    const control = { oid: ControlOid.pagedResults, critical: true, value: sequence };
    const opaque = { ...control, value: Buffer.from('opaque') };
    expect(count(searchRequest(''), [control])).to.equal(count(searchRequest(''), [opaque]));
    const add = (value: Buffer): Request => ({
      op: 'add',
      dn: 'cn=x',
      attributes: [{ type: 'userCertificate;binary', values: [value] }],
    });
    expect(count(add(sequence))).to.equal(count(add(Buffer.from('opaque'))));
  });

  it('ends at the most that is asked for, and with any bytes', () => {
    const bytes = encodeRequest({
      id: 7,
      request: searchRequest('', { attributes: Array(100).fill('a') }),
      controls: [],
    });
    expect(countElements(bytes, 0, bytes.length, 50)).to.equal(50);
    const random = new Random(seed);
    for (let round = 0; round < 500; round++) {
      const wrong = Buffer.from(bytes);
      for (let n = 0; n < 5; n++) wrong[random.below(wrong.length)] = random.below(256);
      const found = countElements(wrong, 0, random.below(wrong.length), MANY);
      expect(found, `seed ${seed}`).to.be.at.most(wrong.length);
    }
  });
});
