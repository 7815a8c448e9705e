import { expect } from 'chai';
import { ADA, PASSWORD, PEOPLE, rowan, rowanDoes, Sandbox } from './rowan.js';

describe('rowan search', () => {
  const sandbox = new Sandbox();
  let at: string;

  async function change(ldif: string): Promise<void> {
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: ldif });
  }

  before(async () => {
    await sandbox.initSample();
    await change(
      `dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: boss\n-\nadd: userPassword\nuserPassword: ${PASSWORD}\n-\n`,
    );
    at = new Date().toISOString();
    await change(`dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: clerk\n-\n\ndn: ${ADA}\nchangetype: delete\n`);
  });
  after(() => sandbox.remove());

  const search = (...args: string[]): Promise<string> => rowanDoes(['search', '--data', sandbox.data, ...args]);

  it('writes the entries of a time as LDIF, without secrets', async () => {
    const said = await search('--as-of', at, '--base', PEOPLE, '(uid=ada)');
    expect(said)
      .to.match(/^version: 1\n\ndn: uid=ada/)
      .and.contain('title: boss')
      .and.not.match(/userPassword|entryUUID/);
    expect(await search('--as-of', at, '--base', ADA, '--scope', 'base', '--operational')).to.contain('entryUUID: ');
  });

  it('writes the entries as they are', async () => {
    expect(await search('(uid=ada)')).to.equal('version: 1\n\n');
    expect(await search('(uid=grace)')).to.contain('dn: uid=grace');
  });

  it('says what is wrong with a time, a filter and a moment of which nothing is kept', async () => {
    for (const [args, text] of [
      [['--as-of', 'yesterday'], /is not a time such as/],
      [['(uid=ada'], /filter|parenthes/i],
      [['--as-of', '2020-01-01T00:00Z'], /change records are kept since 20/],
    ] as const) {
      const { code, stderr } = await rowan(['search', '--data', sandbox.data, ...args]);
      expect(code, stderr).to.not.equal(0);
      expect(stderr).to.match(text);
    }
  });
});
