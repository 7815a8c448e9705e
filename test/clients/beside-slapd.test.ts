import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { needs } from '../require.js';
import { PASSWORD_GROUPS } from './beside-slapd-changes.js';
import { ACCOUNT_GROUPS } from './beside-slapd-requests.js';
import { DIFFERENCES } from './beside-slapd-words.js';
import { RowanSide, SlapdSide } from './side-by-side.js';

const GROUPS = [...ACCOUNT_GROUPS, ...PASSWORD_GROUPS];
/** Differences that no request shows: what brings no answer, what needs a module, and what is none of passwords. */
const WITHOUT_REQUESTS = ['Groups', 'Modules for quality', 'Upgrades'];

/** Titles of the list in docs/passwords.md. */
function listedDifferences(): string[] {
  const page = readFileSync(fileURLToPath(new URL('../../../docs/passwords.md', import.meta.url)), 'utf8');
  const section = /^## Differences from slapd\n([\s\S]*?)^## /m.exec(page)![1]!;
  return [...section.matchAll(/^- \*\*(.+?)\.\*\* /gm)].map((match) => match[1]!);
}

describe('clients: passwords and accounts beside slapd', () => {
  it('the documents list the differences that requests show, and no others', () => {
    const requests = GROUPS.flatMap(({ requests }) => requests);
    expect(requests.length).to.be.at.least(100);
    const shown = new Set(requests.flatMap(({ difference }) => difference ?? []));
    const titles = [...shown].map((difference) => DIFFERENCES[difference]);
    expect([...titles, ...WITHOUT_REQUESTS].sort()).to.deep.equal(listedDifferences().sort());
    expect([...shown].sort()).to.deep.equal(Object.keys(DIFFERENCES).sort());
  });

  describe('the same requests', () => {
    const sides = [new RowanSide(), new SlapdSide()];
    before(async function () {
      needs(this, 'slapd');
      const entries = {
        policies: Object.assign({}, ...GROUPS.map(({ policies }) => policies)),
        accounts: Object.assign({}, ...GROUPS.map(({ accounts }) => accounts)),
      };
      await Promise.all(sides.map((side) => side.start(entries)));
    });
    after(async () => {
      for (const side of sides) await side.stop();
    });

    for (const { title, requests } of GROUPS) {
      it(title, async () => {
        const unexpected: string[] = [];
        for (const { sender, request, uid, text, difference } of requests) {
          const [rowan, slapd] = await Promise.all(sides.map((side) => side.ask(sender, request, uid)));
          if ((rowan === slapd) === (difference === undefined)) continue;
          const kind = difference ? `"${DIFFERENCES[difference]}" does not show` : 'an unlisted difference';
          unexpected.push(`${kind}: ${text}\n    Rowan ${rowan}\n    slapd ${slapd}`);
        }
        expect(unexpected, unexpected.join('\n')).to.deep.equal([]);
      });
    }
  });
});
