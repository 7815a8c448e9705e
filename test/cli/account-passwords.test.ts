import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { hotpCode, stepAt } from '../../src/password/totp.js';
import { RawClient } from '../server/raw-client.js';
import { ADA, rowan, rowanDoes, Sandbox, serve } from './rowan.js';

/** RFC 4648 §6. */
function fromBase32(text: string): Buffer {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...text].map((letter) => letters.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from(bits.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2)));
}

describe('cli: application passwords and second factors', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.initSample());
  after(() => sandbox.remove());
  const account = (...args: string[]) => rowanDoes(['account', ...args, '--data', sandbox.data]);

  async function code(port: number, password: string): Promise<number> {
    const client = await RawClient.open(port);
    const result = await client.bind(ADA, password);
    client.close();
    return result;
  }

  it('application passwords are made, listed and revoked beside a running server', async () => {
    const server = await serve(sandbox.data);
    expect(await account('password', 'list', ADA)).to.equal(`${ADA} has no application passwords\n`);
    const said = await account(
      'password',
      'add',
      ADA,
      '--name',
      'imap',
      '--network',
      '127.0.0.0/8',
      '--expires',
      '90d',
    );
    const [, password] = /^application password 'imap' of .*: ([a-z2-9-]{27}) {3}\(shown this once\)\n$/.exec(said)!;
    await account('password', 'add', ADA, '--name', 'far', '--network', '10.0.0.0/8', '--used-by', ADA);
    expect(await code(server.port, password!)).to.equal(0);
    const client = await RawClient.open(server.port);
    expect(await client.bind(ADA, password!)).to.equal(0);
    const list = await account('password', 'list', ADA);
    expect(list).to.match(
      /^imap: made 20\S+Z; expires 20\S+Z; from 127\.0\.0\.0\/8; last used 20\S+Z, or within an hour/m,
    );
    expect(list).to.match(/^far: made \S+Z; from 10\.0\.0\.0\/8; used by uid=ada,.*; never used$/m);
    expect(list).to.not.include(password!);
    expect(await account('show', ADA)).to.include('2 application passwords');
    expect(await account('password', 'revoke', ADA, '--name', 'imap')).to.match(/is revoked\n$/);
    const answer = await client.search(ADA).catch(() => undefined);
    expect(answer?.code ?? 8).to.equal(8);
    expect(await code(server.port, password!)).to.equal(49);
    for (const [args, message] of [
      [['remove', ADA, '--name', 'imap'], /has no application password 'imap'/],
      [['add', ADA, '--name', 'far'], /there is an application password 'far'/],
      [['add', ADA, '--name', 'x', '--network', '10.0.0.0/99'], /a number from 0 to 32/],
      [['add', ADA, '--name', 'x', '--expires', 'soon'], /must be a number/],
      [
        ['add', ADA, '--name', 'x', '--expires', '90'],
        /^rowan: --expires: '90' has no unit: 90d are days, 90h are hours$/m,
      ],
      [['add', ADA], /--name/],
    ] as const) {
      const { code: ended, stderr } = await rowan(['account', 'password', ...args, '--data', sandbox.data]);
      expect(ended, stderr).to.be.above(0);
      expect(stderr).to.match(message);
    }
    await server.stop();
  });

  it('a second factor is enrolled, demanded at once, and removed', async () => {
    const key = join(sandbox.folder, 'totp.key');
    writeFileSync(key, randomBytes(32));
    const withKey = ['--passwords-totp-key', key];
    await rowanDoes(['passwd', '--data', sandbox.data, ADA], { input: 'of ada\n' });
    const server = await serve(sandbox.data, withKey);
    expect(await code(server.port, 'of ada')).to.equal(0);
    const said = await account('totp', 'enroll', ADA, ...withKey, '--issuer', 'Example');
    const uri = /^(otpauth:\S+) {3}\(shown this once\)$/m.exec(said)![1]!;
    expect(uri).to.include('otpauth://totp/Example:uid');
    const secret = fromBase32(new URL(uri).searchParams.get('secret')!);
    expect(secret).to.have.length(20);
    expect(await code(server.port, 'of ada')).to.equal(49);
    // The next code is good, too, should the step end meanwhile.
    expect(await code(server.port, `of ada${hotpCode(secret, stepAt(Date.now()))}`)).to.equal(0);
    expect(await account('show', ADA)).to.include('second factor: a code of six digits');
    expect((await rowan(['account', 'totp', 'enroll', ADA, ...withKey, '--data', sandbox.data])).stderr).to.match(
      /--replace puts another in its place/,
    );
    expect((await rowan(['account', 'totp', 'enroll', ADA, '--replace', '--data', sandbox.data])).stderr).to.match(
      /needs the setting passwords\.totpKey/,
    );
    for (let i = 0; i < 10; i++) await code(server.port, 'of ada000');
    expect(await account('show', ADA)).to.match(/locked by failed binds since 20\S+ until/);
    expect(await account('unlock', ADA)).to.equal(`${ADA} is unlocked\n`);
    expect(await account('totp', 'remove', ADA)).to.match(/is removed\n$/);
    expect(await account('totp', 'remove', ADA)).to.match(/has no second factor\n$/);
    expect(await code(server.port, 'of ada')).to.equal(0);
    await server.stop();
  });
});
