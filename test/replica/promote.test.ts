import { cpSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Attribute, Change, Client, type ResultCodeError } from 'ldapts';
import { ExtendedOid } from '../../src/protocol/oids.js';
import {
  ADA,
  ADMIN,
  exited,
  heard,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowan,
  rowanDoes,
  Sandbox,
  SUFFIX,
  serve,
} from '../cli/rowan.js';
import { makeCertificate, needs } from '../require.js';
import { RawClient, simpleBind } from '../server/raw-client.js';
import { waitFor } from '../waits.js';

const GRACE = `uid=grace,${PEOPLE}`;
const HANA = `uid=hana,${PEOPLE}`;
/** The LDIF of the changes in the test, without operational attributes and hashes. */
const LOST = [
  `dn: uid=new,${PEOPLE}
cn: New
objectClass: inetOrgPerson
objectClass: organizationalPerson
objectClass: person
objectClass: top
sn: N
structuralObjectClass: inetOrgPerson
uid: newer
uid: new`,
  `dn: uid=new,${PEOPLE}\nchangetype: modrdn\nnewrdn: uid=newer\ndeleteoldrdn: 1\nnewsuperior: ${PEOPLE}`,
  `dn: ${GRACE}\nchangetype: modrdn\nnewrdn: uid=hopper\ndeleteoldrdn: 1\nnewsuperior: ${PEOPLE}`,
  `dn: ${HANA}\nchangetype: delete`,
  `dn: uid=hopper,${PEOPLE}
changetype: modify
replace: uid
uid: hopper
-
replace: description
description: one
description: two
-`,
  `dn: ${ADA}
changetype: modify
replace: mail
-
replace: userPassword
userPassword: {hash}
-
replace: roomNumber
roomNumber: x
-`,
];

/** Binds as the administrator, does the work, and ends the connection. */
async function asAdmin<T>(server: RunningServer, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ url: server.url });
  try {
    await client.bind(ADMIN, PASSWORD);
    return await work(client);
  } finally {
    await client.unbind();
  }
}

function replace(server: RunningServer, dn: string, type: string, ...values: string[]): Promise<void> {
  const modification = new Attribute({ type, values });
  return asAdmin(server, (client) => client.modify(dn, new Change({ operation: 'replace', modification })));
}

function valuesOf(server: RunningServer, dn: string, type: string): Promise<unknown> {
  return asAdmin(server, async (client) => {
    const { searchEntries } = await client.search(dn, { scope: 'base', attributes: [type] });
    return searchEntries[0]?.[type];
  });
}

/** A port that nobody listens on. */
function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** Waits until the condition holds. */
function eventually(what: string, condition: () => Promise<boolean>): Promise<void> {
  const look = async (): Promise<void> => {
    while (!(await condition())) await sleep(20);
  };
  return waitFor(what, look());
}

/** The message with which a write is refused; '' when it is done. */
async function refusal(server: RunningServer): Promise<string> {
  try {
    await replace(server, ADA, 'roomNumber', 'x');
    return '';
  } catch (error) {
    return `${(error as ResultCodeError).code} ${(error as Error).message}`;
  }
}

/** A primary and a replica, each with an ldapi socket. */
class Pair {
  readonly sandbox = new Sandbox();
  readonly folders = { p: this.sandbox.data, r: this.sandbox.path('r') };
  readonly passwords = { p: this.sandbox.path('p.password'), r: this.sandbox.path('r.password') };

  urlOf(name: 'p' | 'r'): string {
    return `ldapi://${encodeURIComponent(this.sandbox.path(`${name}.sock`))}`;
  }

  async init(): Promise<void> {
    await this.sandbox.initSample();
    await rowanDoes(['replica', 'grant', 'r', '--data', this.folders.p, '--password-file', this.passwords.r]);
    await rowanDoes(['replica', 'grant', 'p', '--data', this.folders.p, '--password-file', this.passwords.p]);
  }

  serve(name: 'p' | 'r', ...args: string[]): Promise<RunningServer> {
    return serve(this.folders[name], ['--listen', 'ldap://127.0.0.1:0', '--listen', this.urlOf(name), ...args]);
  }

  async copy(): Promise<void> {
    const access = ['--name', 'r', '--password-file', this.passwords.r];
    await rowanDoes(['replica', 'init', '--data', this.folders.r, '--of', this.urlOf('p'), ...access]);
  }

  /** A replica that follows whichever of the two is the primary. */
  async third(): Promise<RunningServer> {
    const data = this.sandbox.path('s');
    const access = ['--name', 'r', '--password-file', this.passwords.r];
    await rowanDoes(['replica', 'init', '--data', data, '--of', this.urlOf('p'), this.urlOf('r'), ...access]);
    return serve(data);
  }

  rejoin(...args: string[]): Promise<string> {
    const access = ['--name', 'p', '--password-file', this.passwords.p];
    return rowanDoes(['replica', 'rejoin', '--data', this.folders.p, '--of', this.urlOf('r'), ...access, ...args]);
  }

  async expectEqual(): Promise<void> {
    const [p, r] = [
      await rowanDoes(['export', '--data', this.folders.p]),
      await rowanDoes(['export', '--data', this.folders.r]),
    ];
    expect(p).to.equal(r);
    for (const folder of Object.values(this.folders)) await rowanDoes(['check', '--data', folder]);
  }
}

describe('replica: hand-over', () => {
  let pair: Pair;
  let p: RunningServer;
  let r: RunningServer;

  beforeEach(async () => {
    pair = new Pair();
    await pair.init();
    p = await pair.serve('p', '--workers', '2', '--http-listen', '127.0.0.1:0');
    await pair.copy();
    r = await pair.serve('r');
  });

  afterEach(() => pair.sandbox.remove());

  it('a replica beside its server becomes the primary, and the former one refuses writes, after a restart too', async () => {
    await replace(p, ADA, 'roomNumber', '1');
    await eventually('the change at the replica', async () => (await valuesOf(r, ADA, 'roomNumber')) === '1');
    expect(await refusal(r)).to.equal('');
    const s = await pair.third();
    expect(await rowanDoes(['promote', '--data', pair.folders.r])).to.contain('primary of term 2');
    await replace(r, ADA, 'roomNumber', '2');
    await eventually('the change at another replica', async () => (await valuesOf(s, ADA, 'roomNumber')) === '2');
    await s.stop();
    await eventually('the refusal', async () => (await refusal(p)) !== '');
    expect(await refusal(p)).to.match(/^52 .*term 2 at ldapi:.*rowan replica rejoin/);
    const ready = await fetch(`${/http:\S+/.exec(p.ready)![0]}/ready`);
    expect(`${ready.status} ${await ready.text()}`).to.match(/^503 not ready: .*term 2/);
    const status = await rowanDoes(['replica', 'status', '--data', pair.folders.p]);
    expect(status).to.match(/^fenced since \d{4}-\S+, last change \d+: .*term 2 at ldapi:/);
    await p.stop();
    p = await pair.serve('p');
    expect(await refusal(p)).to.match(/^52 .*rowan replica rejoin/);
    await p.stop();
    renameSync(join(pair.folders.p, 'replica.json'), pair.sandbox.path('kept'));
    expect((await rowan(['number', 'set', 'uidNumber', '1', '9', '--data', pair.folders.p])).code).to.equal(1);
    renameSync(pair.sandbox.path('kept'), join(pair.folders.p, 'replica.json'));
    expect(await pair.rejoin('--dry-run', '--tls-ca', pair.passwords.p)).to.contain('has 0 changes');
    const file = pair.sandbox.path('lost.ldif');
    await pair.rejoin('--ldif', file);
    expect(readFileSync(file, 'utf8')).not.to.contain('dn:');
    p = await pair.serve('p');
    await replace(r, ADA, 'roomNumber', '3');
    await eventually('the change at the former primary', async () => (await valuesOf(p, ADA, 'roomNumber')) === '3');
    await Promise.all([p.stop(), r.stop()]);
    await pair.expectEqual();
  });

  it('a former primary counts failed binds, answers them as ever, and tells strangers nothing', async () => {
    const policy = `cn=policy,${SUFFIX}`;
    await asAdmin(p, async (client) => {
      const values = { cn: 'policy', pwdAttribute: 'userPassword', pwdLockout: 'TRUE', pwdMaxFailure: '3' };
      await client.add(policy, { objectClass: ['device', 'pwdPolicy'], ...values });
    });
    for (const dn of [ADA, GRACE]) {
      await replace(p, dn, 'pwdPolicySubentry', policy);
      await replace(p, dn, 'userPassword', 'right words');
    }
    await rowanDoes(['promote', '--data', pair.folders.r]);
    await eventually('the refusal', async () => (await refusal(p)) !== '');
    const client = await RawClient.open(Number(/:(\d+)$/.exec(p.url)![1]));
    const answer = async (dn: string, password: string): Promise<string> => {
      const { code, final } = await client.request(simpleBind(dn, password));
      return `${code} ${final.message}`;
    };
    const wrong = '49 wrong DN or password';
    for (let i = 0; i < 2; i++) expect(await answer(GRACE, 'guess')).to.equal(wrong);
    expect(await answer(GRACE, 'right words')).to.equal('0 ');
    for (let i = 0; i < 3; i++) expect(await answer(ADA, 'guess')).to.equal(wrong);
    expect(await answer(ADA, 'right words')).to.equal(wrong);
    expect(await answer(`uid=nobody,${PEOPLE}`, 'guess')).to.equal(wrong);
    client.close();
  });

  it('a second primary of the same term is an error in the log', async () => {
    let s = await pair.third();
    await Promise.all([p.stop(), s.stop()]);
    const data = pair.sandbox.path('s');
    for (const folder of [pair.folders.r, data])
      expect(await rowanDoes(['promote', '--data', folder])).to.contain('primary of term 2');
    s = await serve(data);
    await heard(s.process, 'another primary of the same term');
    await s.stop();
  });

  it('what a killed primary had alone is in the LDIF of rejoin, and both are equal then', async () => {
    await r.stop();
    await asAdmin(p, async (client) => {
      await client.add(`uid=new,${PEOPLE}`, { objectClass: 'inetOrgPerson', uid: 'new', cn: 'New', sn: 'N' });
      await client.modifyDN(`uid=new,${PEOPLE}`, 'uid=newer');
      await client.add(`uid=gone,${PEOPLE}`, { objectClass: 'inetOrgPerson', uid: 'gone', cn: 'Gone', sn: 'G' });
      await client.del(`uid=gone,${PEOPLE}`);
      await client.modifyDN(GRACE, 'uid=hopper');
      await client.del(HANA);
    });
    await replace(p, `uid=hopper,${PEOPLE}`, 'description', 'one', 'two');
    // The rows of a dropped index change without the log.
    await rowanDoes(['index', 'drop', 'mail', '--data', pair.folders.p]);
    await replace(p, ADA, 'mail');
    await rowanDoes(['index', 'add', 'mail', '--substring', '--data', pair.folders.p]);
    await replace(p, ADA, 'userPassword', 'new secret');
    p.process.kill('SIGKILL');
    await exited(p.process);
    await rowanDoes(['promote', '--data', pair.folders.r]);
    r = await pair.serve('r');
    await replace(r, ADA, 'roomNumber', '7');
    p = await pair.serve('p');
    expect(await refusal(p)).to.equal('');
    await eventually('the refusal', async () => (await refusal(p)) !== '');
    await p.stop();
    const file = pair.sandbox.path('lost.ldif');
    await pair.rejoin('--ldif', file);
    expect(statSync(file).mode & 0o777).to.equal(0o600);
    await r.stop();
    await pair.expectEqual();
    // Until it heard of the new term, the former primary took the last write of the test.
    const lost = readFileSync(file, 'utf8').replaceAll(/^(entry|create|modif|creat|pwd)\w*: .*\n/gm, '');
    expect(lost.replaceAll(/\n /g, '').replace(/\{.*/, '{hash}').split('\n\n').slice(2, -1)).to.deep.equal(LOST);
    const before = await rowanDoes(['export', '--data', pair.folders.p, '--no-operational']);
    await rowanDoes(['import', '--data', pair.folders.r, file]);
    const after = await rowanDoes(['export', '--data', pair.folders.r, '--no-operational']);
    expect(before).to.contain(HANA).and.contain('roomNumber: 7');
    expect(after).to.contain('uid=newer').and.contain('uid=hopper').and.not.contain(HANA);
  });

  it('a planned hand-over over TLS, with several processes on both sides', async function () {
    needs(this, 'openssl');
    await Promise.all([p.stop(), r.stop()]);
    const { cert, key } = makeCertificate(pair.sandbox.folder);
    const serveTls = async (name: 'p' | 'r', port: number): Promise<RunningServer> => {
      const tls = ['--listen', `ldaps://localhost:${port}`, '--tls-cert', cert, '--tls-key', key];
      return serve(pair.folders[name], ['--listen', 'ldap://127.0.0.1:0', '--workers', '2', ...tls]);
    };
    const [one, two] = [await freePort(), await freePort()];
    const file = join(pair.folders.r, 'replica.json');
    const state = JSON.parse(readFileSync(file, 'utf8')) as object;
    const of = [`ldaps://localhost:${one}`];
    writeFileSync(file, JSON.stringify({ ...state, of, tlsCa: cert }));
    [p, r] = [await serveTls('p', one), await serveTls('r', two)];
    await replace(r, ADA, 'roomNumber', '1');
    expect(await rowanDoes(['promote', '--data', pair.folders.r, '--from', of[0]!])).to.contain('term 2');
    await replace(r, ADA, 'roomNumber', '2');
    for (let i = 0; i < 4; i++)
      await eventually('a write at the former primary', async () => (await refusal(p)) === '');
    await eventually('the change', async () => (await valuesOf(p, ADA, 'roomNumber')) === 'x');
    await Promise.all([p.stop(), r.stop()]);
    await pair.expectEqual();
  });

  it('a primary that was restored from an older copy is not followed, and gets back by rejoin', async () => {
    const access = ['--data', pair.folders.r, '--name', 'r', '--password-file', pair.passwords.r];
    const restore = async (work: () => Promise<void>): Promise<void> => {
      await p.stop();
      cpSync(pair.folders.p, pair.sandbox.path('copy'), { recursive: true });
      p = await pair.serve('p');
      await work();
      await p.stop();
      rmSync(pair.folders.p, { recursive: true });
      renameSync(pair.sandbox.path('copy'), pair.folders.p);
      p = await pair.serve('p');
    };
    const change = async (...values: string[]): Promise<void> => {
      for (const value of values) await replace(p, ADA, 'roomNumber', value);
    };
    const file = pair.sandbox.path('lost.ldif');
    const rejoined = async (): Promise<string> => {
      const text = readFileSync(file, 'utf8');
      rmSync(file);
      await Promise.all([p.stop(), r.stop()]);
      await pair.expectEqual();
      return text;
    };
    const ended = async (): Promise<void> => {
      const replica = r.process;
      await heard(replica, 'is not in the log of this server, which was restored from an older copy; promote the');
      await exited(replica);
    };
    // The log of the restored server is shorter, then longer; the replica drops what the server lacks.
    let end = ended();
    await restore(async () => {
      await replace(p, GRACE, 'description', 'lost');
      await eventually('the change', async () => (await valuesOf(r, GRACE, 'description')) === 'lost');
    });
    await end;
    await change('1', '2', '3');
    r = await pair.serve('r');
    await ended();
    await rowanDoes(['replica', 'rejoin', '--of', pair.urlOf('p'), ...access, '--ldif', file]);
    r = await pair.serve('r');
    expect(await rejoined())
      .to.contain('1 change\n')
      .and.contain('description: lost');
    p = await pair.serve('p');
    r = await pair.serve('r');
    end = ended();
    // The replica becomes the primary; the restored server drops its own changes, and takes those that it has lost.
    await restore(async () => {
      await replace(p, HANA, 'description', 'kept');
      await eventually('the change', async () => (await valuesOf(r, HANA, 'description')) === 'kept');
    });
    await change('4', '5', '6');
    await end;
    await rowanDoes(['promote', '--data', pair.folders.r]);
    r = await pair.serve('r');
    await eventually('the refusal', async () => (await refusal(p)) !== '');
    await p.stop();
    await pair.rejoin('--ldif', file);
    expect(await rejoined())
      .to.match(/\d changes\n/)
      .and.contain('roomNumber: ')
      .and.not.contain('kept');
    expect(await rowanDoes(['export', '--data', pair.folders.p])).to.contain('description: kept');
  });

  it('a planned hand-over fails no write that is tried again once, and the former primary follows', async () => {
    // Only a granted replica is heard.
    const forged = JSON.stringify({ position: '0', terms: [{ term: 9, id: 'ab', start: '1' }], ask: 'state' });
    const answer = asAdmin(p, (client) => client.exop(ExtendedOid.replicate, forged));
    expect(await answer.catch((error: ResultCodeError) => error.code)).to.equal(50);
    let isOver = false;
    let count = 0;
    const write = async (): Promise<void> => {
      for (let server = p; !isOver; count++) {
        const value = String(count);
        await replace(server, ADA, 'roomNumber', value).catch(() => {
          server = r;
          return replace(server, ADA, 'roomNumber', value);
        });
      }
    };
    const writing = write();
    await eventually('some writes', async () => count > 20);
    const own = await rowan(['promote', '--data', pair.folders.r, '--from', pair.urlOf('r')]);
    expect([own.code, own.stderr]).to.deep.equal([
      1,
      `rowan: ${pair.urlOf('r')} is this server: give the URL of the primary\n`,
    ]);
    expect(await rowanDoes(['promote', '--data', pair.folders.r, '--from', pair.urlOf('p')])).to.contain('term 2');
    const done = count;
    await eventually('more writes', async () => count > done + 20);
    isOver = true;
    await writing;
    const last = String(count - 1);
    await eventually('the last write', async () => (await valuesOf(p, ADA, 'roomNumber')) === last);
    // The former primary hands writes on now.
    expect(await refusal(p)).to.equal('');
    expect(await valuesOf(r, ADA, 'roomNumber')).to.equal('x');
    await Promise.all([p.stop(), r.stop()]);
    await pair.expectEqual();
  });
});
