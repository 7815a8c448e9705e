import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { ADMIN, addPerson, personDn, type Running, SUFFIX, start, testSchema } from './directory.js';
import { type Answer, RawClient } from './raw-client.js';

const ACTOR = { dn: ADMIN.dn };
const CHANGELOG = 'cn=changelog';

describe('server: cn=changelog', () => {
  let running: Running;
  let admin: RawClient;
  let first = 0;
  const parse = (dn: string) => testSchema().parseDn(dn);

  before(async () => {
    running = await start({}, 3, undefined, PRESETS['users-read']);
    admin = await RawClient.open(running.port);
    await admin.bind(ADMIN.dn, ADMIN.password);
    first = Number((await running.partition.feed.latest()).number) + 1;
    await addPerson(running.partition, 'ann', { l: 'Kiel', userPassword: 'clear words' });
    await running.partition.modify(
      parse(personDn('ann')),
      [{ operation: 'replace', attribute: { type: 'l', values: [Buffer.from('Kiel'), Buffer.from('Köln')] } }],
      ACTOR,
    );
    await running.partition.rename(
      parse(personDn('ann')),
      { newRdn: 'uid=anna', deleteOldRdn: true, newSuperior: SUFFIX },
      ACTOR,
    );
    await addPerson(running.partition, 'bob');
    await running.partition.delete(parse(personDn('bob')), ACTOR);
  });
  after(async () => {
    admin.close();
    await running.stop();
  });

  const number = (type: 'equal' | 'greaterOrEqual' | 'lessOrEqual', value: number): Filter => ({
    type,
    attribute: 'changeNumber',
    value: Buffer.from(String(value)),
  });
  const texts = (answer: Answer, type: string): (string | undefined)[] =>
    answer.entries.map(({ attributes }) => attributes.get(type)?.map(String).join());

  it('has an entry for each change, with present values and no secrets', async () => {
    const found = await admin.search(CHANGELOG, { scope: 'one', filter: number('greaterOrEqual', first) });
    expect(found.code).to.equal(0);
    expect(found.entries.map(({ dn }) => dn)).to.deep.equal(
      [0, 1, 2, 3, 4].map((n) => `changeNumber=${first + n},${CHANGELOG}`),
    );
    expect(texts(found, 'changeType')).to.deep.equal(['add', 'modify', 'modrdn', 'add', 'delete']);
    expect(texts(found, 'targetDN')).to.deep.equal(['ann', 'ann', 'ann', 'bob', 'bob'].map(personDn));
    const [added, modified] = texts(found, 'changes');
    expect(added)
      .to.match(/^uid: anna$/m)
      .and.not.match(/userPassword/);
    expect(modified).to.include('replace: l\nl: Kiel\nl:: S8O2bG4=\n-\n');
    expect(texts(found, 'newRDN')[2]).to.equal('uid=anna');
    expect(texts(found, 'deleteOldRDN')[2]).to.equal('TRUE');
    expect(texts(found, 'newSuperior')[2]).to.equal(SUFFIX);
  });

  it('reads the range that a filter on changeNumber allows', async () => {
    const search = async (filter: Filter): Promise<(string | undefined)[]> =>
      texts(await admin.search(CHANGELOG, { scope: 'sub', filter }), 'changeNumber');
    expect(await search(number('equal', first))).to.deep.equal([`${first}`]);
    expect(await search(number('lessOrEqual', 2))).to.deep.equal(['1', '2']);
    const both = {
      type: 'and',
      filters: [number('greaterOrEqual', first + 1), number('lessOrEqual', first + 2)],
    } as const;
    expect(await search(both)).to.deep.equal([`${first + 1}`, `${first + 2}`]);
    const later = { type: 'not', filter: number('lessOrEqual', first) } as const;
    expect((await search(later)).filter(Boolean).length).to.equal(4);
  });

  it('finds one change by its name, and the first and the last number', async () => {
    const one = await admin.search(`changenumber=${first},${CHANGELOG}`);
    expect(texts(one, 'changeType')).to.deep.equal(['add']);
    expect((await admin.search(`changeNumber=${first + 100},${CHANGELOG}`)).code).to.equal(32);
    const top = await admin.search(CHANGELOG);
    expect(texts(top, 'firstChangeNumber')).to.deep.equal(['1']);
    expect(texts(top, 'lastChangeNumber')).to.deep.equal([`${first + 4}`]);
    expect(texts(await admin.search('', { attributes: ['changeLog'] }), 'changeLog')).to.deep.equal([CHANGELOG]);
  });

  it('is read by whoever may read all entries, and by nobody else', async () => {
    const user = await RawClient.open(running.port);
    try {
      expect((await user.search(CHANGELOG)).code).to.equal(50);
      await user.bind(personDn('p0'), 'secret-0');
      expect((await user.search(CHANGELOG)).code).to.equal(0);
      const hiding = `${PRESETS['users-read']}  - name: mail is hidden
    who: { users: true }
    to: { attributes: [mail] }
    deny: [read]
`;
      await running.partition.setAccess(hiding, 'test', running.partition.accessVersion);
      expect((await user.search(CHANGELOG, { scope: 'sub' })).code).to.equal(32);
      expect((await admin.search(CHANGELOG)).code).to.equal(0);
    } finally {
      user.close();
    }
  });
});
