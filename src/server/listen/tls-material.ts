import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Config, nameSetting, type SettingName } from '../settings/index.js';

/** The certificate, key and options of the TLS server. */
export interface TlsMaterial {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer | undefined;
  /** End of the certificate's validity, in milliseconds since 1970. */
  readonly expiresAt: number;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

/** A form of file other than PEM: its first bytes in hexadecimal, or its text, and OpenSSL's command that makes PEM. */
type Form = readonly [mark: RegExp, name: string, command: string];

/** A sequence in DER that begins with version 3. */
const PKCS12 = /^30(?:[0-7].|81..|82.{4}|83.{6})020103/;
const CERTIFICATE_FORMS: readonly Form[] = [
  [/-----BEGIN PKCS7-----/, 'PKCS #7', 'pkcs7 -print_certs'],
  [/^30.{2,8}06092a864886f70d010702/, 'PKCS #7', 'pkcs7 -inform DER -print_certs'],
  [PKCS12, 'PKCS #12', 'pkcs12 -nokeys'],
  [/^308[123]/, 'DER', 'x509 -inform DER'],
];
const KEY_FORMS: readonly Form[] = [
  [/^-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m, 'PEM, encrypted', 'pkey'],
  [PKCS12, 'PKCS #12', 'pkcs12 -nocerts -nodes'],
  // PKCS #8, PKCS #1 and SEC 1: a sequence that begins with version 0 or 1.
  [/^30(?:[0-7].|81..|82.{4})02010[01]/, 'DER', 'pkey -inform DER'],
];
const CERTIFICATES = /^-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[\s\S]*?^-----END [^\n]*/gm;

/**
 * Reads the configured files; undefined without a certificate. Rejects with an error that names the setting and the
 * file when a file cannot be read, is not PEM of the expected kind, has its certificates in the wrong order, or the key
 * does not belong to the certificate. The error has the command that converts the file, where one does. TLS itself
 * would report an OpenSSL code, or report a key of another kind only to the clients.
 */
export async function readTls({ tls }: Config): Promise<TlsMaterial | undefined> {
  if (tls.cert === undefined || tls.key === undefined) return undefined;
  const [certificate, key, ca] = await Promise.all([
    readNamedFile('tls.cert', tls.cert),
    readNamedFile('tls.key', tls.key),
    tls.ca === undefined ? undefined : readNamedFile('tls.ca', tls.ca),
  ]);
  const chain = parseCertificates(certificate, 'tls.cert', tls.cert);
  if (ca && tls.ca !== undefined) parseCertificates(ca, 'tls.ca', tls.ca);
  const privateKey = parsePrivateKey(key, tls.key);
  const first = chain.findIndex((one) => one.checkPrivateKey(privateKey));
  if (first < 0) throw new Error(`tls.key: ${tls.key} is not the key of the certificate in ${tls.cert}`);
  requireOrder(chain, first, tls.cert);
  const expiresAt = Date.parse(chain[0]!.validTo);
  return { certificate, key, ca, expiresAt, minVersion: tls.minVersion };
}

async function readNamedFile(setting: SettingName, path: string): Promise<Buffer> {
  return readFile(path).catch((error: Error) => {
    throw nameSetting(error, setting, path);
  });
}

function parseCertificates(bytes: Buffer, setting: SettingName, path: string): X509Certificate[] {
  const blocks = bytes.toString('latin1').match(CERTIFICATES);
  if (!blocks)
    throw new Error(`${setting}: ${path} holds no certificate in PEM${conversion(bytes, CERTIFICATE_FORMS, path)}`);
  return blocks.map((block, i) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      throw new Error(`${setting}: ${path}: certificate ${i + 1} in the file is damaged`, { cause: error });
    }
  });
}

/**
 * Throws unless the certificate of the server is the first, and each authority follows a certificate that it has
 * issued (RFC 5246 §7.4.2). Clients of TLS 1.2 may refuse another order. `first`: index of the server's certificate.
 */
function requireOrder(chain: readonly X509Certificate[], first: number, path: string): void {
  const order = [first];
  const rest = new Set(chain.keys());
  rest.delete(first);
  while (rest.size > 0) {
    const next = [...rest].find((i) => order.some((issued) => chain[issued]!.checkIssued(chain[i]!))) ?? [...rest][0]!;
    order.push(next);
    rest.delete(next);
  }
  if (order.every((index, place) => index === place)) return;
  const numbers = order.map((index) => index + 1).join(' ');
  const command = `for n in ${numbers}; do awk "/^-----BEGIN/ {i++} i == $n" ${shellWord(path)}; done > ${shellWord(`${path}.pem`)}`;
  throw new Error(
    `tls.cert: the certificates in ${path} are in the wrong order: that of tls.key is the first, and each is followed by that of its issuer; this command orders them: ${command}`,
  );
}

function parsePrivateKey(bytes: Buffer, path: string): KeyObject {
  try {
    return createPrivateKey(bytes);
  } catch (error) {
    const hint = conversion(bytes, KEY_FORMS, path);
    throw new Error(`tls.key: ${path} holds no private key in PEM without a passphrase${hint}`, { cause: error });
  }
}

/** Tells the form of a file, and the command that converts it; '' for a file of no such form. */
function conversion(bytes: Buffer, forms: readonly Form[], path: string): string {
  const [hex, text] = [bytes.toString('hex', 0, 24), bytes.toString('latin1')];
  const form = forms.find(([mark]) => mark.test(hex) || mark.test(text));
  if (!form) return '';
  const [, name, command] = form;
  return `; it is ${name}, which "openssl ${command} -in ${shellWord(path)} -out ${shellWord(`${path}.pem`)}" converts`;
}

function shellWord(text: string): string {
  return /^[\w./+:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
