import { expect } from 'chai';
import { Draft, draftFromAttributes } from '../../src/partition/model/draft.js';
import { Schema } from '../../src/schema/index.js';
import type { AttributeDescription } from '../../src/schema/schema-types.js';
import { random } from '../store/suite/fixture.js';

type Name = AttributeDescription;

describe('an entry while it is changed', () => {
  const schema = Schema.load();
  const { seed, next } = random();
  const bytes = (texts: readonly string[]) => texts.map((text) => Buffer.from(text));
  /** Spellings of one attribute are one. */
  const spellings = (i: number) => [`cn;x-${i}`, `CN;X-${i}`, `2.5.4.3;x-${i};binary`];

  it(`is a list of attributes, few or many, each in the place where it came first (ROWAN_SEED=${seed})`, () => {
    const draft = new Draft();
    const model = new Map<string, string[]>();
    for (let step = 0; step < 3000; step++) {
      const i = next(step < 1500 ? 10 : 100);
      const name = `cn;x-${i}`;
      const text = spellings(i)[next(3)]!;
      const description = schema.requireDescription(text);
      const values = Array.from({ length: next(3) }, () => String(next(1000)));
      const known = model.get(name);
      const done = next(5);
      if (done === 0) {
        draft.remove(description);
        model.delete(name);
      } else if (done === 1) {
        draft.replace(description, text, bytes(values));
        if (values.length === 0) model.delete(name);
        else model.set(name, values);
      } else if (done === 2) {
        expect(draft.setDefault(description, text, Buffer.from('default'))).to.equal(known === undefined);
        model.set(name, known ?? ['default']);
      } else if (known || values.length > 0) {
        draft.append(description, text, bytes(values));
        model.set(name, [...(known ?? []), ...values]);
      }
      if (step % 10 === 0) expect(shown(draft)).to.deep.equal([...model]);
      expect(draft.get(description)?.values.map((value) => value.bytes.toString())).to.deep.equal(model.get(name));
    }
    expect(model.size).to.be.above(40);
    const copy = draft.copy();
    copy.remove(schema.requireDescription([...model.keys()][0]!));
    expect(shown(copy)).to.deep.equal([...model].slice(1));
    expect(shown(draft)).to.deep.equal([...model]);
  });

  it('takes one attribute from many mentions, in the time that its values need', () => {
    const given = Array.from({ length: 400_000 }, (_, i) => ({
      type: spellings(i % 2)[(i >> 1) % 2]!,
      values: [Buffer.from(String(i)), Buffer.from(`and ${i}`)],
    }));
    const draft = draftFromAttributes(schema, [{ type: 'sn', values: bytes(['x']) }, ...given]);
    const texts = draft.attributes.map(({ text }) => text);
    expect(texts).to.deep.equal(['sn', 'cn;x-0', 'cn;x-1']);
    for (const [i, { values }] of draft.attributes.slice(1).entries()) {
      expect(values).to.have.length(400_000);
      expect(values[7]).to.deep.equal({ bytes: Buffer.from(`and ${6 + i}`), index: 7 });
      expect(values.at(-1)).to.deep.equal({ bytes: Buffer.from(`and ${399_998 + i}`), index: 399_999 });
    }
    // Copying all of them at each mention would take many minutes.
  });

  it('shares with its copy what neither changes', () => {
    const [cn, sn, mail] = ['cn', 'sn', 'mail'].map((name) => schema.requireDescription(name)) as [Name, Name, Name];
    const draft = new Draft();
    for (const one of [cn, sn, mail]) draft.replace(one, one.type.name, bytes(['a', 'b']));
    const copy = draft.copy();
    copy.replace(cn, 'CN', bytes(['a', 'b']));
    copy.replace(sn, 'sn', bytes(['b', 'a']));
    copy.append(mail, 'mail', bytes(['c']));
    expect(copy.get(cn)).to.equal(draft.get(cn));
    const texts = (one: Draft, name: Name) => one.get(name)!.values.map(({ bytes, index }) => `${index} ${bytes}`);
    expect([texts(draft, sn), texts(copy, sn)]).to.deep.equal([
      ['0 a', '1 b'],
      ['0 b', '1 a'],
    ]);
    expect([texts(draft, mail), texts(copy, mail)]).to.deep.equal([
      ['0 a', '1 b'],
      ['0 a', '1 b', '2 c'],
    ]);
  });
});

function shown(draft: Draft): [name: string, values: string[]][] {
  return draft.attributes.map(({ description, values }) => [
    `cn;${description.options.join(';')}`,
    values.map((value) => value.bytes.toString()),
  ]);
}
