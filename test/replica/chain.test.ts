import { expect } from 'chai';
import { ADA, exited, PEOPLE, rowanDoes, Sandbox, SUFFIX } from '../cli/rowan.js';
import { addPerson, personDn, read, replace } from '../cli/workers.js';
import type { RawClient } from '../server/raw-client.js';
import { waitFor } from '../waits.js';
import { contentOf, Machine } from './servers.js';

const POLICY = `cn=policy,${SUFFIX}`;

/** Waits until a change at the client's server succeeds. */
function untilWritable(client: RawClient): Promise<void> {
  const change = async (): Promise<void> => {
    while ((await replace(client, ADA, 'roomNumber', 'back')).code !== 0);
  };
  return waitFor('a change that succeeds', change());
}

describe('replica: a replica of a replica', () => {
  const sandbox = new Sandbox();
  const first = new Machine(sandbox, 'data');
  const second = new Machine(sandbox, 'second');
  const third = new Machine(sandbox, 'third');
  let atSecond: RawClient;
  let atThird: RawClient;

  before(async () => {
    await sandbox.initSample();
    const policy = `dn: ${POLICY}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: policy\npwdAttribute: userPassword\npwdLockout: TRUE\npwdMaxFailure: 3\n`;
    await rowanDoes(['import', '--data', first.data, '-'], { input: policy });
    await first.start('--passwords-policy', POLICY);
    const password = sandbox.path('third.password');
    await rowanDoes(['replica', 'grant', 'third', '--data', first.data, '--password-file', password]);
    // The second machine follows the third one while the first one is away: a circle.
    await second.follow(first, third);
    await second.start('--passwords-policy', POLICY);
    const access = ['--name', 'third', '--password-file', password];
    await rowanDoes(['replica', 'init', '--data', third.data, '--of', second.socketUrl, ...access]);
    await third.start('--passwords-policy', POLICY);
    atSecond = await second.client();
    atThird = await third.client();
  });
  after(() => sandbox.remove());

  it('hands changes on to the primary, and its client reads them', async () => {
    const { code, final } = await addPerson(atThird, 'far', 'right');
    expect(code, final.message).to.equal(0);
    expect(await read(atThird, personDn('far'), 'uid')).to.equal('far');
    const own = await third.client(personDn('far'), 'right');
    expect((await replace(own, ADA, 'roomNumber', 'foreign')).code).to.equal(50);
    own.close();
  });

  it('counts failed binds at the primary', async () => {
    const tries = await third.client();
    for (let i = 0; i < 3; i++) expect(await tries.bind(personDn('far'), 'wrong')).to.equal(49);
    tries.close();
    const elsewhere = await first.client();
    expect(await elsewhere.bind(personDn('far'), 'right')).to.equal(49);
    elsewhere.close();
  });

  it('refuses changes while two replicas follow each other, and hands them on when the primary is back', async () => {
    first.server.process.kill('SIGKILL');
    await exited(first.server.process);
    await second.says(`replica of ${third.socketUrl},`);
    for (const client of [atSecond, atThird]) expect((await addPerson(client, 'away')).code).to.equal(52);
    expect(await (await third.client()).bind(`uid=nobody,${PEOPLE}`, 'wrong')).to.equal(49);
    await first.start('--passwords-policy', POLICY);
    await untilWritable(atSecond);
    await untilWritable(atThird);
    for (const machine of [first, second, third]) await machine.stop();
    for (const { data } of [second, third]) expect(await contentOf(data)).to.equal(await contentOf(first.data));
  });
});
