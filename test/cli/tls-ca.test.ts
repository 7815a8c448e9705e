import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { expect } from 'chai';
import { describeError } from '../../src/cli/exit.js';
import { readTls } from '../../src/server/listen/tls-material.js';
import { makeConfig, withValues } from '../../src/server/settings/index.js';
import { needs } from '../require.js';
import { ADMIN, heard, PASSWORD, rowan, run, Sandbox } from './rowan.js';

interface Authority {
  readonly cert: string;
  readonly key: string;
}

/** A certificate made by openssl, signed by `signer` or by itself. */
function certificate(sandbox: Sandbox, name: string, isAuthority: boolean, signer?: Authority): Authority {
  const made = { cert: sandbox.path(`${name}.crt`), key: sandbox.path(`${name}.key`) };
  const extensions = isAuthority
    ? ['keyUsage=keyCertSign']
    : ['basicConstraints=CA:FALSE', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const args = [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-subj', `/CN=${name}`, ...extensions.flatMap((extension) => ['-addext', extension])],
    ...(signer ? ['-CA', signer.cert, '-CAkey', signer.key] : []),
    ...['-keyout', made.key, '-out', made.cert],
  ];
  execFileSync('openssl', args, { stdio: 'ignore' });
  return made;
}

describe('cli: --tls-ca', () => {
  const sandbox = new Sandbox();
  let root: Authority;
  let between: Authority;
  let own: Authority;

  before(async function () {
    needs(this, 'openssl', 'ldap-utils');
    await sandbox.initSample();
    root = certificate(sandbox, 'root', true);
    between = certificate(sandbox, 'between', true, root);
    own = certificate(sandbox, 'localhost', false, between);
  });
  after(() => sandbox.remove());

  const args = (...more: string[]): string[] => [
    ...['--listen', 'ldaps://127.0.0.1:0', '--tls-cert', own.cert, '--tls-key', own.key],
    ...more,
  ];

  /** Who signed the certificate, to a client that trusts the root alone; OpenSSL's code where it does not trust it. */
  function seen(port: number): Promise<string> {
    return new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', ca: readFileSync(root.cert) }, () => {
        resolve(`signed by ${socket.getPeerCertificate().issuer.CN}`);
        socket.destroy();
      });
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    });
  }

  const whoami = (url: string) =>
    run('ldapwhoami', ['-x', '-H', url, '-D', ADMIN, '-w', PASSWORD], { env: { LDAPTLS_CACERT: root.cert } });

  it('sends the authorities between certificate and root along: clients know the root alone', async () => {
    const bare = await sandbox.serve(args());
    expect(await seen(bare.port)).to.equal('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
    expect((await whoami(bare.url)).code).not.to.equal(0);
    await bare.stop();
    const server = await sandbox.serve(args('--tls-ca', between.cert));
    expect(await seen(server.port)).to.equal('signed by between');
    expect((await whoami(server.url)).stdout).to.equal(`dn:${ADMIN}\n`);
    await server.stop();
  });

  it('needs --tls-cert, and a file of certificates', async () => {
    const start = (...more: string[]) => rowan(['serve', '--data', sandbox.data, ...more]);
    const alone = await start('--listen', 'ldap://127.0.0.1:0', '--tls-ca', between.cert);
    expect(alone.code).to.equal(2);
    expect(alone.stderr).to.equal('rowan: --tls-ca needs tls.cert\n');
    const wrong = await start(...args('--tls-ca', between.key));
    expect(wrong.code).to.equal(1);
    expect(wrong.stderr).to.contain(`tls.ca: ${between.key} holds no certificate in PEM`);
  });

  /** Runs `openssl` to write a file in the sandbox. Returns the path of the file. */
  function convert(name: string, ...command: string[]): string {
    const path = sandbox.path(name);
    execFileSync('openssl', [...command, '-out', path], { stdio: 'ignore' });
    return path;
  }

  function concatenate(name: string, ...files: string[]): string {
    writeFileSync(sandbox.path(name), files.map((file) => readFileSync(file, 'utf8')).join(''));
    return sandbox.path(name);
  }

  it('names the setting, the file and the command that converts the file', async () => {
    const derCert = convert('cert.der', 'x509', '-in', own.cert, '-outform', 'DER');
    const derCa = convert('ca.der', 'x509', '-in', between.cert, '-outform', 'DER');
    const derKey = convert('key.der', 'pkey', '-in', own.key, '-outform', 'DER');
    const locked = convert('locked.key', 'pkey', '-in', own.key, '-aes256', '-passout', 'pass:x');
    const pfx = convert('own.pfx', ...['pkcs12', '-export', '-inkey', own.key, '-in', own.cert, '-passout', 'pass:']);
    const pkcs7 = convert('own.p7b', 'crl2pkcs7', '-nocrl', '-certfile', own.cert);
    const derPkcs7 = convert('own.p7c', 'crl2pkcs7', '-nocrl', '-certfile', own.cert, '-outform', 'DER');
    const rootFirst = concatenate('wrong-order.pem', root.cert, between.cert, own.cert);
    const rootSecond = concatenate('wrong order.pem', own.cert, root.cert, between.cert);
    const empty = sandbox.path('empty.pem');
    writeFileSync(empty, '');
    const none = sandbox.path('none.pem');
    const damaged = concatenate('damaged.pem', between.cert, own.cert);
    writeFileSync(
      damaged,
      readFileSync(damaged, 'utf8').replace(/^(-----BEGIN.*\n[\s\S]*-----BEGIN.*\n.{9}).{9}/, '$1'),
    );
    type Name = 'cert' | 'key' | 'ca';
    const refusals: [Name, string, string, string?][] = [
      ['cert', derCert, 'holds no certificate in PEM; it is DER', `openssl x509 -inform DER -in ${derCert}`],
      ['ca', derCa, 'holds no certificate in PEM; it is DER', `openssl x509 -inform DER -in ${derCa}`],
      ['key', derKey, 'without a passphrase; it is DER', `openssl pkey -inform DER -in ${derKey}`],
      ['key', locked, 'without a passphrase; it is PEM, encrypted', `openssl pkey -in ${locked} -passin pass:x`],
      ['cert', pfx, 'it is PKCS #12', `openssl pkcs12 -nokeys -in ${pfx} -passin pass:`],
      ['key', pfx, 'it is PKCS #12', `openssl pkcs12 -nocerts -nodes -in ${pfx} -passin pass:`],
      ['cert', pkcs7, 'it is PKCS #7', `openssl pkcs7 -print_certs -in ${pkcs7}`],
      ['ca', derPkcs7, 'it is PKCS #7', `openssl pkcs7 -inform DER -print_certs -in ${derPkcs7}`],
      ['cert', rootFirst, 'for n in 3 2 1; do'],
      ['cert', rootSecond, 'for n in 1 3 2; do'],
      ['cert', empty, 'holds no certificate in PEM'],
      ['cert', own.key, 'holds no certificate in PEM'],
      ['key', own.cert, 'holds no private key in PEM'],
      ['ca', damaged, 'certificate 2 in the file is damaged'],
      ...(['cert', 'key', 'ca'] as const).flatMap((name): [Name, string, string][] => [
        [name, sandbox.folder, 'is a folder, not a file'],
        [name, none, 'no such file or folder'],
      ]),
    ];
    for (const [name, path, reason, command] of refusals) {
      const files = { 'tls.cert': own.cert, 'tls.key': own.key, 'tls.ca': between.cert };
      const usable = makeConfig(files);
      const usual = await readTls(usable);
      expect(usual!.certificate).to.deep.equal(readFileSync(own.cert));
      const refused = await readTls(withValues(usable, { [`tls.${name}`]: path })).catch(describeError);
      expect(refused)
        .to.be.a('string')
        .and.match(/^tls\./);
      expect(refused).to.include(`tls.${name}: `).and.include(path).and.include(reason);
      // The command in the message makes a file that is taken.
      const told = /"(openssl .*)" converts|(for n in .*)$/
        .exec(refused as string)
        ?.slice(1)
        .find(Boolean);
      if (told === undefined) continue;
      if (command !== undefined) expect(told).to.include(command.replace(/ -passin .*/, ''));
      const passphrase =
        / -passin \S+/.exec(command ?? '')?.[0] ?? (command?.includes('pkcs12') ? ' -passin pass:' : '');
      expect(await run('sh', ['-c', `${told}${passphrase}`])).to.include({ code: 0 });
      await readTls(withValues(usable, { [`tls.${name}`]: `${path}.pem` }));
    }
  });

  it('is told so at the start and at a reload of the server', async () => {
    const cert = sandbox.path('renewed.crt');
    writeFileSync(cert, readFileSync(own.cert));
    const settings = ['--listen', 'ldaps://127.0.0.1:0', '--tls-cert', cert, '--tls-key', own.key];
    const server = await sandbox.serve(settings);
    execFileSync('openssl', ['x509', '-in', own.cert, '-outform', 'DER', '-out', cert], { stdio: 'ignore' });
    const told = heard(server.process, 'the old one stays');
    server.process.kill('SIGHUP');
    const command = `tls.cert: ${cert} holds no certificate in PEM; it is DER, which "openssl x509 -inform DER`;
    expect(await told).to.include(`the old one stays: ${command}`);
    rmSync(cert);
    const missing = heard(server.process, 'the old one stays: tls.cert: ');
    server.process.kill('SIGHUP');
    expect(await missing).to.include(`tls.cert: ${cert}: no such file or folder`);
    await server.stop();
    execFileSync('openssl', ['x509', '-in', own.cert, '-outform', 'DER', '-out', cert], { stdio: 'ignore' });
    const { code, stderr } = await rowan(['serve', '--data', sandbox.data, ...settings]);
    expect(`${code} ${stderr}`).to.include(`1 rowan: ${command}`);
  });
});
