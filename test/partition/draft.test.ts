import { expect } from 'chai';
import { Draft } from '../../src/partition/draft.js';
import { Schema } from '../../src/schema/index.js';
import { random } from '../store/suite/fixture.js';

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
});

function shown(draft: Draft): [name: string, values: string[]][] {
  return draft.attributes.map(({ description, values }) => [
    `cn;${description.options.join(';')}`,
    values.map((value) => value.bytes.toString()),
  ]);
}
