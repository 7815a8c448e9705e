import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { PlainEntry } from './naive.js';
import { NaiveSlapd, type SlapdLine, textOf } from './naive-slapd.js';

/** What `slapacl` of OpenLDAP 2.5 said to random lines: of who asks, from where, and of which entry, each attribute. */
interface Answers {
  readonly attributes: readonly string[];
  readonly entries: readonly [dn: string, values: [string, string[]][]][];
  readonly cases: readonly {
    readonly lines: readonly SlapdLine[];
    readonly answers: readonly [dn: string | null, address: string, entry: string, privileges: string][];
  }[];
}

const FILE = fileURLToPath(new URL('../../../test/access/slapacl-answers.json', import.meta.url));

describe('the naive slapd', () => {
  it('the naive slapd gives the answers of slapacl', () => {
    const { attributes, entries, cases } = JSON.parse(readFileSync(FILE, 'utf8')) as Answers;
    const all = new Map(entries.map(([dn, values]): [string, PlainEntry] => [dn, { dn, values: new Map(values) }]));
    expect(cases).to.have.lengthOf(24);
    for (const { lines, answers } of cases) {
      const slapd = new NaiveSlapd(lines, all, () => false);
      for (const [dn, address, entry, said] of answers) {
        const asker = { dn: dn ?? undefined, address, strength: 0 };
        const found = attributes.map((one) =>
          [...slapd.privileges(asker, all.get(entry)!, one.toLowerCase())].sort().join(''),
        );
        expect(found.join(' '), `${dn} to ${entry}\n${lines.map(textOf).join('\n')}`).to.equal(said);
      }
    }
  });
});
