import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { ADMIN, exited, heard, PASSWORD, run, SUFFIX, startProgram } from '../cli/rowan.js';
import { needs } from '../require.js';
import { rowanUnderPolicy, slapdUnderPolicy } from './policy-servers.js';

const SERVICE = 'rowan-test';
const PAM = `auth required pam_ldap.so
account required pam_ldap.so
password required pam_ldap.so
`;

/** In a mount namespace of its own, so that nothing of the machine is changed: nslcd, told to look into `folder`. */
const NSLCD = `set -e
mount -t tmpfs none /run
mkdir /run/nslcd && chown nslcd:nslcd /run/nslcd
mount --bind "$0/nslcd.conf" /etc/nslcd.conf
mount -t tmpfs none /etc/pam.d
cp "$0/pam" /etc/pam.d/${SERVICE}
exec nslcd -d
`;

/** Logs in through PAM, as sshd and login do. `ROWAN_TEST_PAM=1` has it run. */
for (const server of [rowanUnderPolicy(), slapdUnderPolicy()])
  (process.env.ROWAN_TEST_PAM === '1' ? describe : describe.skip)(`clients: PAM with nslcd and ${server.name}`, () => {
    let folder: string;
    let nslcd: ChildProcess | undefined;

    before(async function () {
      needs(this, 'pam');
      server.needs(this);
      const url = await server.start(['pam']);
      folder = mkdtempSync(join(tmpdir(), 'rowan-pam-'));
      const lookUp = `binddn ${ADMIN}\nbindpw ${PASSWORD}\n`;
      // Else nslcd searches as the user after the bind, which who has to change the password may not.
      const authenticate = 'pam_authc_search NONE\n';
      const conf = `uid nslcd\ngid nslcd\nuri ${url}/\nbase ${SUFFIX}\n${lookUp}${authenticate}`;
      writeFileSync(join(folder, 'nslcd.conf'), conf, { mode: 0o600 });
      writeFileSync(join(folder, 'pam'), PAM);
      nslcd = startProgram('unshare', ['--mount', 'sh', '-c', NSLCD, folder]);
      await heard(nslcd, 'accepting connections');
    });
    after(async () => {
      if (nslcd) {
        nslcd.kill('SIGTERM');
        await exited(nslcd);
        rmSync(folder, { recursive: true, force: true });
      }
      await server.remove();
    });

    /** What a user is told who types these lines. */
    async function logIn(
      kind: string,
      typed: readonly string[],
      steps = ['authenticate', 'acct_mgmt'],
    ): Promise<string> {
      const inside = ['-t', String(nslcd!.pid), '--mount', 'pamtester', SERVICE, `${kind}-pam`, ...steps];
      const { code, stdout, stderr } = await run('nsenter', inside, {
        input: typed.map((line) => `${line}\n`).join(''),
      });
      return `${code} ${stdout}${stderr}`;
    }

    it('warns of an expiry', async () => {
      expect(await logIn('expiring', ['right'])).to.match(/^0 .*Password will expire in [34] days/s);
    });

    it('lets an expired password in once more, and then no more', async () => {
      expect(await logIn('expired', ['right'])).to.match(/^0 .*Password expired, 0 grace logins left/s);
      expect(await logIn('expired', ['right'])).to.match(/^1 .*Authentication failure/s);
    });

    it('asks for a change after a reset, which is made', async () => {
      expect(await logIn('reset', ['right'])).to.match(/^1 .*Password must be changed/s);
      expect(await logIn('reset', ['right', 'my own', 'my own'], ['authenticate', 'chauthtok'])).to.match(/^0 /);
      expect(await logIn('reset', ['my own'])).to.match(/^0 /);
    });

    it('lets nobody in whom failures have locked', async () => {
      expect(await logIn('locked', ['right'])).to.match(/^0 /);
      for (let i = 0; i < 3; i++) expect(await logIn('locked', ['wrong'])).to.match(/^1 .*Authentication failure/s);
      expect(await logIn('locked', ['right'])).to.match(/^1 .*Authentication failure/s);
    });
  });
