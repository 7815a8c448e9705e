import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { runNow, standardJobs } from '../../src/jobs/index.js';
import { makeConfig } from '../../src/server/settings/index.js';
import { type Fixture, openFixture } from '../partition/fixture.js';
import { needs } from '../require.js';

const NEVER = new AbortController().signal;

describe('job certificate', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-certificate-'));
  let fixture: Fixture;
  before(async function () {
    needs(this, 'openssl');
    fixture = await openFixture('memory');
  });
  after(async () => {
    await fixture?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function certificate(days: number): string {
    const path = join(folder, `${days}.crt`);
    const subject = ['-subj', '/CN=test', '-days', String(days), '-keyout', join(folder, 'key'), '-out', path];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject], { stdio: 'ignore' });
    return path;
  }

  async function run(path: string): Promise<string> {
    const job = standardJobs(fixture.partition, makeConfig({ 'tls.cert': path })).find(
      (one) => one.name === 'certificate',
    )!;
    return runNow(fixture.store, job, NEVER).catch((error: Error) => `failed: ${error.message}`);
  }

  it('fails when a certificate of the file expires soon, and else tells when it does', async () => {
    const far = certificate(100);
    expect(await run(far)).to.match(/^the certificate in .* expires in 99 days, on \d{4}-/);
    const soon = certificate(10);
    expect(await run(soon)).to.match(/^failed: .* expires in 9 days, on .*; replace it and send SIGHUP$/);
    const chain = join(folder, 'chain.crt');
    writeFileSync(chain, readFileSync(far, 'latin1') + readFileSync(soon, 'latin1'));
    expect(await run(chain)).to.match(/^failed: .* expires in 9 days/);
  });

  it('fails with the path where the file holds no certificate', async () => {
    const path = join(folder, 'text');
    writeFileSync(path, 'no certificate');
    expect(await run(path)).to.equal(`failed: ${path} has no certificate in PEM form`);
  });
});
