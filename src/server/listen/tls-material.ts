import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Config } from '../settings/index.js';

/** The certificate, key and options of the TLS server. */
export interface TlsMaterial {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer | undefined;
  /** End of the certificate's validity, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/**
 * Reads the configured files; undefined without a certificate. Rejects with an error that names the setting and the
 * file when a file cannot be read, is not PEM of the expected kind, or the key does not belong to the certificate. TLS
 * itself would report an OpenSSL code, or report a key of another kind only to the clients.
 */
export async function readTls({ tls }: Config): Promise<TlsMaterial | undefined> {
  if (tls.cert === undefined || tls.key === undefined) return undefined;
  const [certificate, key, ca] = await Promise.all([
    readFile(tls.cert),
    readFile(tls.key),
    tls.ca === undefined ? undefined : readFile(tls.ca),
  ]);
  const parsedCertificate = parseCertificate(certificate, 'tls.cert', tls.cert);
  if (ca && tls.ca !== undefined) parseCertificate(ca, 'tls.ca', tls.ca);
  if (!parsedCertificate.checkPrivateKey(parsePrivateKey(key, tls.key))) {
    throw new Error(`tls.key: ${tls.key} is not the key of the certificate in ${tls.cert}`);
  }
  const expiresAt = Date.parse(parsedCertificate.validTo);
  return { certificate, key, ca, expiresAt, minVersion: tls.minVersion };
}

function parseCertificate(pem: Buffer, setting: string, path: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Error(`${setting}: ${path} holds no certificate in PEM`, { cause: error });
  }
}

function parsePrivateKey(pem: Buffer, path: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    throw new Error(`tls.key: ${path} holds no private key in PEM, or one with a passphrase`, { cause: error });
  }
}
