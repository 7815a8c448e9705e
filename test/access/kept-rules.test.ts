import { expect } from 'chai';
import { checkRules } from '../../src/access/check-rules.js';
import { parseRules } from '../../src/access/parse-rules.js';
import { Partition } from '../../src/partition/index.js';
import { type Fixture, openFixture, refused, SUFFIX } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';

const rules = (name: string) => `rules:\n- { name: ${name}, who: {}, allow: [view] }\n`;

for (const engine of NEAR_ENGINES) {
  describe(`access rules stored in a directory (${engine})`, () => {
    let fixture: Fixture;
    before(async () => {
      fixture = await openFixture(engine);
    });
    after(() => fixture.close());

    it('every version of the access rules is stored as given', async () => {
      const { partition } = fixture;
      expect([partition.accessVersion, await partition.accessRules(), await partition.accessHistory()]).to.deep.equal([
        0,
        undefined,
        [],
      ]);
      expect(await partition.setAccess(rules('a'), 'cn=x', 0)).to.equal(1);
      expect(await partition.setAccess(rules('b'), 'cn=y', 1)).to.equal(2);
      expect((await partition.accessRules())?.text).to.equal(rules('b'));
      expect((await partition.accessRules(1))?.text).to.equal(rules('a'));
      expect(await partition.accessRules(3)).to.equal(undefined);
      const history = await partition.accessHistory();
      expect(history.map(({ version, author: by, text }) => [version, by, text])).to.deep.equal([
        [2, 'cn=y', rules('b')],
        [1, 'cn=x', rules('a')],
      ]);
    });

    it('of several concurrent replacements of the access rules one succeeds and the others fail', async () => {
      const { partition } = fixture;
      const instead = partition.accessVersion;
      const names = ['c', 'd', 'e', 'f'];
      const ends = await Promise.allSettled(names.map((name) => partition.setAccess(rules(name), 'cn=x', instead)));
      const won = names.filter((_, i) => ends[i]!.status === 'fulfilled');
      expect(won).to.have.lengthOf(1);
      expect((await partition.accessRules())?.text).to.equal(rules(won[0]!));
      expect(partition.accessVersion).to.equal(instead + 1);
      await refused('busy', partition.setAccess(rules('g'), 'cn=x', instead), /look at them and try again/);
    });

    it('new access rules apply in another process that has the directory open', async () => {
      const { partition, store } = fixture;
      const other = await Partition.open(store, partition.schema);
      const version = await partition.setAccess(rules('h'), 'cn=x', partition.accessVersion);
      await other.refresh();
      expect(await other.freshAccessVersion()).to.equal(version);
      expect((await other.accessRules())?.text).to.equal(rules('h'));
    });

    it('access rules are checked against the entries that they name', async () => {
      const { partition } = fixture;
      await fixture.add(`cn=g,${SUFFIX}`, { objectClass: 'groupOfNames', member: `cn=p,${SUFFIX}` });
      await fixture.add(`cn=p,${SUFFIX}`, { objectClass: 'person', sn: 'p' });
      const text = `rules:
- { name: group, who: { group: "cn=G,${SUFFIX}" }, allow: [view] }
- { name: none, who: { not: { group: "cn=none,${SUFFIX}" } }, allow: [view] }
- { name: person, who: { group: "cn=p,${SUFFIX}" }, to: { base: "cn=q,${SUFFIX}" }, allow: [view] }
limits:
- { name: limit, who: { group: "cn=none,${SUFFIX}" }, sizeLimit: 1 }
`;
      const { faults, warnings } = await checkRules(parseRules(text, partition.schema).rules!, partition, () => false);
      const places = (found: typeof faults) => found.map(({ line, message }) => `${line} ${message.split(':', 1)[0]}`);
      expect(places(faults)).to.deep.equal(["3 rule 'none'", "6 limit 'limit'"]);
      expect(places(warnings)).to.deep.equal(["4 rule 'person'", "4 rule 'person'"]);
    });

    it('password policies in access rules are checked against the entries and against each other', async () => {
      const { partition } = fixture;
      await fixture.add(`cn=policy,${SUFFIX}`, { objectClass: 'device' });
      await fixture.add(`cn=other,${SUFFIX}`, { objectClass: 'device' });
      const item = (name: string, more: string, policy = 'policy') =>
        `- { name: ${name}, policy: "cn=${policy},${SUFFIX}"${more} }`;
      const text = [
        'rules: []',
        'passwordPolicies:',
        item('z', ', to: { filter: "(cn=a)" }'),
        item('y', ', to: { filter: "(cn=b)" }'),
        item('x', `, to: { subtree: "${SUFFIX}" }`),
        item('w', `, to: { subtree: ["ou=gone,${SUFFIX}", "${SUFFIX}"] }`),
        item('v', `, group: "cn=none,${SUFFIX}"`),
        item('u', ', to: { subtree: "o=elsewhere" }', 'gone'),
        item('t', ', to: { subtree: "o=other", filter: "(cn=a)" }', 'other'),
        item('s', `, to: { filter: "(cn=a)" }`),
      ].join('\n');
      const { faults, warnings } = await checkRules(
        parseRules(text, partition.schema).rules!,
        partition,
        ({ dn }) => dn === `cn=policy,${SUFFIX}`,
      );
      const told = (found: typeof faults) => found.map(({ line, message }) => `${line} ${message}`);
      const holds = `this directory holds '${SUFFIX}', 'o=other'`;
      expect(told(faults)).to.deep.equal([
        `7 password policy 'v': the group 'cn=none,${SUFFIX}' is not there; add it first, or correct its name`,
        `8 password policy 'u': the policy 'cn=gone,${SUFFIX}' is not there; add it first, or correct its name`,
        `8 password policy 'u': this never applies: 'o=elsewhere' is below no suffix: ${holds}`,
        `9 password policy 't': 'cn=other,${SUFFIX}' is no password policy; it needs the class pwdPolicy and pwdAttribute: userPassword`,
        "3 password policy 'z': this never applies: 's' is for the same accounts; take one of the two away",
        "5 password policy 'x': this never applies: 'w' is for the same accounts; take one of the two away",
      ]);
      expect(told(warnings)).to.deep.equal([
        `6 password policy 'w': 'ou=gone,${SUFFIX}' is not there; it holds once it is`,
        `9 password policy 't': 'o=other' is not there; it holds once it is`,
        "4 password policy 'y': for accounts that 's' fits, too, that one comes first, by its name",
      ]);
    });
  });
}
