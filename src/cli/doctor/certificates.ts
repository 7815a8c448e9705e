import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { checkCertificates } from '../../jobs/index.js';
import { parseListenUrl } from '../../server/listen/listener.js';
import { readTls } from '../../server/listen/tls-material.js';
import type { Settings } from '../options.js';
import { type Finding, ok, warning } from './finding.js';

const LOOPBACK = /^(?:localhost|127\.[\d.]+|::1)$/i;
const ANY = /^(?:::|0\.0\.0\.0)$/;

/** Checks that the certificate is valid, has its key, and names the hosts that clients connect to. */
export async function checkCertificate({ config }: Settings): Promise<Finding[]> {
  const hosts = config.listen.flatMap((url) => {
    const address = parseListenUrl(url);
    return address.scheme === 'ldapi' || LOOPBACK.test(address.host) ? [] : [address.host];
  });
  const tls = await readTls(config);
  if (!tls) {
    if (hosts.length === 0) return [ok('there is none, and the server listens on this machine alone')];
    return [warning('passwords cross the network in the clear', 'set tls.cert, tls.key and passwords.requireTls')];
  }
  const { cert } = config.tls;
  const expiry = await checkCertificates(cert, 0);
  const { days } = config.jobs.certificate;
  const findings = [await checkCertificates(cert, days).then(ok, () => warning(expiry, 'replace it and send SIGHUP'))];
  const certificate = new X509Certificate(tls.certificate);
  for (const host of new Set(hosts.map((name) => (ANY.test(name) ? hostname() : name)))) {
    if (isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host)) continue;
    const text = `clients that connect to ${host} refuse the certificate, which names ${certificate.subjectAltName ?? certificate.subject}`;
    findings.push(warning(text, `have ${host} named in the certificate, or let clients connect to a name that is`));
  }
  return findings;
}
