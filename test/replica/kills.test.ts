import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { heard, rowanDoes } from '../cli/rowan.js';
import { type Random, seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { Cluster } from './cluster.js';
import { entryOf, type Found, findAll, foundIn, Model, stateText } from './kill-model.js';
import { contentOf } from './servers.js';

const IN_SOAK = 3_600_000;

async function run(args: readonly string[], work: (cluster: Cluster, model: Model, random: Random) => Promise<void>) {
  await seeded(async (random) => {
    const model = new Model(random);
    const cluster = new Cluster(random, model, ...args);
    try {
      await cluster.begin();
      await work(cluster, model, random);
      await cluster.expectEqual();
    } finally {
      await cluster.remove();
    }
  });
}

async function readPrimary(cluster: Cluster): Promise<Found> {
  const client = await cluster.primary.client();
  try {
    return await findAll(client);
  } finally {
    client.close();
  }
}

describe('replica: kills and promotions', () => {
  it('lose no acknowledged change with replica.acknowledge', async function () {
    this.timeout(IN_SOAK);
    await run(['--replica-acknowledge', '1'], async (cluster, model, random) => {
      for (let round = 0; round < rounds(2, 200); round++) {
        cluster.beginWriting();
        await cluster.acknowledgements(20);
        for (let n = random.int(4); n > 0; n--) await cluster.disturb();
        if (random.chance(0.2)) {
          cluster.primary.isShut = true;
          cluster.primary.cut();
          await cluster.answers();
        }
        const former = await cluster.killPrimary();
        // Writers go on at the replicas.
        await cluster.promote(former);
        if (random.chance(0.2)) {
          await former.start('--replica-acknowledge', '1');
          await heard(former.server.process, 'has told of');
          await former.kill();
        }
        await cluster.rejoin(former);
        await cluster.endWriting();
        expect(model.lost(await readPrimary(cluster)), `round ${round}`).to.deep.equal([]);
      }
    });
  });

  it('without it, what is lost is what the former primary writes to its LDIF', async function () {
    this.timeout(IN_SOAK);
    let lostCount = 0;
    await run([], async (cluster, model) => {
      for (let round = 0; round < rounds(1, 60); round++) {
        cluster.beginWriting();
        await cluster.acknowledgements(30);
        cluster.primary.isShut = true;
        cluster.primary.cut();
        await cluster.acknowledgements(30);
        const former = await cluster.killPrimary();
        await cluster.endWriting();
        await cluster.promote(former);
        const had = foundIn(await contentOf(former.data));
        const present = await readPrimary(cluster);
        const differing = [...new Set([...had.keys(), ...present.keys()])].filter(
          (id) => stateText(had.get(id)) !== stateText(present.get(id)),
        );
        const lost = model.lost(present);
        lostCount += lost.length;
        const file = await cluster.rejoin(former);
        const named = readFileSync(file, 'utf8').matchAll(/^dn: (.*)$/gm);
        const inFile = new Set([...named].map(([, dn]) => entryOf(dn!)!));
        expect([...inFile].sort(), `round ${round}`).to.deep.equal(differing.sort());
        expect(differing).to.include.members(lost);
        await rowanDoes(['import', '--data', cluster.primary.data, file]);
        const again = await readPrimary(cluster);
        expect([...again].sort()).to.deep.equal([...had].sort());
        expect(model.lost(again)).to.deep.equal([]);
      }
    });
    expect(lostCount).to.be.greaterThan(0);
  });
});
