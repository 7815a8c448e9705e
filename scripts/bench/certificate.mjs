import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { isInstalled } from './machine.mjs';

/** Returns the rows that this machine can drive. `say` receives what is missing for the other rows. */
export function rowsToDrive(rows, say) {
  const missing = rows.some((row) => row.tls) ? missingForTls() : [];
  if (missing.length === 0) return rows;
  const left = rows.filter((row) => row.tls).map((row) => row.name);
  say(`left out: ${left.join(', ')}; to have them, install ${missing.join(' and ')}`);
  return rows.filter((row) => !row.tls);
}

/** The Debian packages that rows under TLS require. */
function missingForTls() {
  const header = spawnSync('gcc', ['-E', '-'], { input: '#include <openssl/ssl.h>\n', encoding: 'utf8' });
  return [...(header.status === 0 ? [] : ['libssl-dev']), ...(isInstalled('openssl') ? [] : ['openssl'])];
}

/** Makes a certificate for 127.0.0.1 that both servers use. The key is P-256, as certificate authorities now use. */
export function makeCertificate(folder) {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  const name = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const args = ['req', '-x509', ...kind, ...name, '-keyout', key, '-out', cert];
  const run = spawnSync('openssl', args, { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`openssl req failed: ${run.stderr}`);
  return { cert, key };
}
