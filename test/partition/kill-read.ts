import { expect } from 'chai';
import { type Fixture, SUFFIX, uuidText } from './fixture.js';
import { containerOf, type Entries, SHARED } from './kill-model.js';

/** What the directory holds of one writer, by two ways that must agree: through the tree and through an index. */
export async function readEntries(fixture: Fixture, writer: number): Promise<Entries> {
  const entries: Entries = new Map();
  const own = await fixture.search({ base: containerOf(writer, false), scope: 'one' });
  const shared = await fixture.search({ base: SHARED, scope: 'one', filter: `(sn=w${writer}-*)` });
  for (const dn of [...own.dns, ...shared.dns]) {
    const entry = await fixture.read(dn, true);
    const value = (name: string) => entry.attributes.find((a) => a.description === name)?.values.map(String) ?? [];
    const text = value('description')[0]!;
    expect(value('mail'), `both attributes of ${dn} changed together`).to.deep.equal([text]);
    expect(value('cn')).to.deep.equal([dn.slice(3, dn.indexOf(','))]);
    expect(await fixture.find({ type: 'equal', attribute: 'mail', value: Buffer.from(text) })).to.deep.equal([dn]);
    entries.set(uuidText(entry.id), { name: value('cn')[0]!, text, shared: dn.endsWith(`,${SHARED}`) });
  }
  const indexed = await fixture.find(`(cn=w${writer}-*)`, { base: SUFFIX });
  expect(indexed).to.deep.equal([...own.dns, ...shared.dns].sort());
  return entries;
}
