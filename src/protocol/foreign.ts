const HTTP_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'];
const TLS_HANDSHAKE = 0x16;
const TLS_MAJOR_VERSION = 0x03;
/** First bytes of a PROXY protocol header, version 2. */
const PROXY_SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

/** Recognizes by its first bytes another protocol that a client speaks to the wrong port; undefined if none. */
export function foreignProtocol(bytes: Uint8Array): 'TLS' | 'HTTP' | 'SSH' | 'PROXY protocol' | undefined {
  if (bytes[0] === TLS_HANDSHAKE && bytes[1] === TLS_MAJOR_VERSION) return 'TLS';
  const text = Buffer.from(bytes.subarray(0, 16)).toString('latin1');
  if (HTTP_METHODS.some((method) => text.startsWith(`${method} `)) || text.startsWith('PRI * HTTP/2')) return 'HTTP';
  if (text.startsWith('SSH-')) return 'SSH';
  if (text.startsWith('PROXY ') || text.startsWith(PROXY_SIGNATURE.toString('latin1'))) return 'PROXY protocol';
  return undefined;
}
