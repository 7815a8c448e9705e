import { expect } from 'chai';
import { ADA, rowan, Sandbox } from './rowan.js';

/** Most tests run commands that succeed in a process that has run others. These end the process that they start. */
describe('cli: a process of its own', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  for (const command of [
    'index add employeeNumber',
    'unique add employeeNumber',
    'references show',
    'number set uidNumber 5000 5999',
    'schema show',
    'deleted list',
    'jobs run purge',
    'explain (cn=ada)',
    'passwd',
    `account lock ${ADA}`,
    'access show',
    'export',
    'warm',
    'repair',
    'check',
  ]) {
    it(`ends when "${command.replace(ADA, 'DN')}" is done`, async () => {
      const ended = await rowan([...command.split(' '), '--data', sandbox.data], { input: 'a new password\n' });
      expect(ended.code, ended.stderr).to.equal(0);
    });
  }

  it('ends when "copy" is done', async () => {
    const ended = await rowan(['copy', '--from', sandbox.data, '--to', sandbox.path('copy')]);
    expect(ended.code, ended.stderr).to.equal(0);
  });
});
