import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { hotpCode, stepAt } from '../../src/password/totp.js';
import { APPLICATION_PASSWORD, createApplicationPassword } from '../../src/server/passwords/application-password.js';
import { SecondFactor, TOTP_SECRET } from '../../src/server/passwords/second-factor.js';
import { ENGINES, openStore } from '../partition/fixture.js';
import { ADMIN, CHEAP, emptyPartition, fill, personDn, type Running, start, testSchema } from './directory.js';
import { RawClient } from './raw-client.js';

const SYSTEM = { dn: ADMIN.dn, system: true };
const P0 = personDn('p0');

for (const engine of ENGINES) {
  describe(`server: application passwords and second factors at two front ends (${engine})`, () => {
    const fronts: Running[] = [];
    const folders: string[] = [];
    const { now } = Date;

    before(async () => {
      const { store, folder } = await openStore(engine);
      if (folder) folders.push(folder);
      folders.push(mkdtempSync(join(tmpdir(), 'rowan-proofs-')));
      const key = join(folders.at(-1)!, 'key');
      writeFileSync(key, randomBytes(32));
      const first = await emptyPartition(store);
      await fill(first, 2);
      const second = await Partition.open(store, testSchema());
      for (const partition of [first, second])
        fronts.push(await start({ ...CHEAP, 'passwords.totpKey': key }, 0, partition));
      const sealed = new SecondFactor(key, { error: () => undefined }).encryptSecret(secret);
      await change(0, personDn('p1'), 'replace', TOTP_SECRET, sealed);
    });
    after(async () => {
      for (const one of fronts) await one.stop();
      await fronts[0]?.partition.close();
      for (const folder of folders) rmSync(folder, { recursive: true });
    });
    afterEach(() => {
      Date.now = now;
    });

    const secret = randomBytes(20);

    const change = (at: number, dn: string, operation: 'add' | 'delete' | 'replace', type: string, value: Buffer) =>
      fronts[at]!.partition.modify(
        testSchema().parseDn(dn),
        [{ operation, attribute: { type, values: [value] } }],
        SYSTEM,
      );

    async function bind(at: number, dn: string, password: string): Promise<number> {
      const client = await RawClient.open(fronts[at]!.port);
      const code = await client.bind(dn, password);
      client.close();
      return code;
    }

    it('an application password binds at both front ends from its creation until it is revoked', async () => {
      const made = createApplicationPassword(
        { name: 'imap', networks: [], usedBy: undefined, expires: undefined },
        [],
        now(),
      );
      for (const at of [0, 1]) expect(await bind(at, P0, made.clearPassword)).to.equal(49);
      await change(0, P0, 'add', APPLICATION_PASSWORD, made.value);
      for (const at of [0, 1]) expect(await bind(at, P0, made.clearPassword)).to.equal(0);
      for (const at of [0, 1]) expect(await bind(at, P0, 'secret-0'), 'the own password').to.equal(0);
      await change(1, P0, 'delete', APPLICATION_PASSWORD, made.value);
      for (const at of [0, 1]) expect(await bind(at, P0, made.clearPassword)).to.equal(49);
    });

    it('a code of a second factor is accepted once, at whichever front end', async () => {
      const time = now();
      Date.now = () => time;
      const password = `secret-1${hotpCode(secret, stepAt(time))}`;
      const codes = await Promise.all(Array.from({ length: 10 }, (_, n) => bind(n % 2, personDn('p1'), password)));
      expect(codes.filter((code) => code === 0)).to.have.length(1);
      for (const at of [0, 1]) expect(await bind(at, personDn('p1'), password)).to.equal(49);
      for (const at of [0, 1]) expect(await bind(at, personDn('p1'), 'secret-1')).to.equal(49);
    });
  });
}
