import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { expect } from 'chai';
import { needs } from '../require.js';
import { ADMIN, PASSWORD, rowan, run, Sandbox } from './rowan.js';

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
});
