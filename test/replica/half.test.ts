import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { Follower } from '../../src/replica/follower.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { PEOPLE, rowan, rowanDoes, Sandbox } from '../cli/rowan.js';
import { waitFor } from '../waits.js';
import { contentOf, Machine } from './servers.js';

/** Entries so large that a replica writes them in several transactions. */
function largeLdif(): string {
  return Array.from({ length: 60 }, (_, i) => {
    const lines = [`dn: uid=large${i},${PEOPLE}`, 'objectClass: inetOrgPerson', `uid: large${i}`, `sn: ${i}`, 'cn: x'];
    return [...lines, `description: ${'d'.repeat(150_000)}`].join('\n');
  }).join('\n\n');
}

describe('replica: half a change', () => {
  const sandbox = new Sandbox();
  const primary = new Machine(sandbox, 'data');
  const replica = new Machine(sandbox, 'second');

  after(async () => {
    await primary.stop();
    await sandbox.remove();
  });

  it('is finished by a promotion, and not taken for the directory before', async () => {
    await sandbox.initSample();
    await primary.start();
    await replica.follow(primary);
    writeFileSync(sandbox.path('large.ldif'), largeLdif());
    await primary.stop();
    await rowanDoes(['import', '--data', primary.data, sandbox.path('large.ldif')]);
    await primary.start();
    // The process of the replica ends after the first transaction of the change.
    let count = 0;
    const ending = new AbortController();
    const failpoint = (name: string): void => {
      if (name !== 'commit begin' || ++count === 1) return;
      ending.abort();
      throw new Error('the machine is lost');
    };
    const store = await openLmdbStore(replica.data, { create: false, failpoint });
    await waitFor('the loss of the replica', new Follower(store, replica.data).run(ending.signal));
    await store.close();
    await primary.stop();
    expect(count).to.equal(2);
    const reading = await rowan(['export', '--data', replica.data]);
    expect(`${reading.code} ${reading.stderr}`).to.match(/^1 .*half of a large change.*rowan promote/);
    expect(await rowanDoes(['promote', '--data', replica.data])).to.contain('the primary of term 2');
    expect(await rowanDoes(['check', '--data', replica.data])).to.contain('no breach found');
    expect(await contentOf(replica.data)).to.equal(await contentOf(primary.data));
  });
});
