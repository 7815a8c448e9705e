import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Config } from '../settings/index.js';

/** What TLS is spoken with. */
export interface TlsMaterial {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer | undefined;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/**
 * Reads the configured files; undefined where there is no certificate. Rejects with an error that names setting and
 * file when one cannot be read, is no PEM of its kind, or the key is not the certificate's: TLS itself would say so
 * with a code of OpenSSL's, or, where the two are of different kinds, only to the clients.
 */
export async function readTls({ tls }: Config): Promise<TlsMaterial | undefined> {
  if (tls.cert === undefined || tls.key === undefined) return undefined;
  const [certificate, key, ca] = await Promise.all([
    readFile(tls.cert),
    readFile(tls.key),
    tls.ca === undefined ? undefined : readFile(tls.ca),
  ]);
  const first = certificateOf(certificate, 'tls.cert', tls.cert);
  if (ca && tls.ca !== undefined) certificateOf(ca, 'tls.ca', tls.ca);
  if (!first.checkPrivateKey(privateKeyOf(key, tls.key))) {
    throw new Error(`tls.key: ${tls.key} is not the key of the certificate in ${tls.cert}`);
  }
  return { certificate, key, ca, minVersion: tls.minVersion };
}

function certificateOf(pem: Buffer, setting: string, path: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Error(`${setting}: ${path} holds no certificate in PEM`, { cause: error });
  }
}

function privateKeyOf(pem: Buffer, path: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    throw new Error(`tls.key: ${path} holds no private key in PEM, or one with a passphrase`, { cause: error });
  }
}
