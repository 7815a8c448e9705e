import { createHash, timingSafeEqual } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import type { Logger } from 'pino';
import { isLoopbackAddress, nameSetting } from '../../server/settings/index.js';
import { CliError, describeError, UsageError } from '../exit.js';
import { createHttpServer, Refusal, type Route } from './http-server.js';

/** Shortest token, in characters: 128 bits in base64. */
const MIN_TOKEN_LENGTH = 22;

export interface HttpListener {
  readonly server: Server;
  readonly url: string;
}

/**
 * Listens on `listen` (`HOST:PORT`). Routes need the token of the file, unless a route is public. Throws `UsageError`
 * when there is no token for an address that other machines reach. Without a token, a request must name this machine.
 */
export async function openHttpListener(
  listen: string,
  tokenFile: string | undefined,
  routes: readonly Route[],
  log: Logger,
): Promise<HttpListener> {
  const portStart = listen.lastIndexOf(':');
  const listenName = listen.slice(0, portStart).replaceAll(/[[\]]/g, '');
  try {
    const { address, family } = await lookup(listenName);
    const needsToken = tokenFile !== undefined || !isLoopbackAddress(address);
    const tokenDigest = needsToken ? await readToken(listen, tokenFile) : undefined;
    const server = createHttpServer(routes, log, (route, { headers }) => {
      if (route?.isPublic) return;
      if (tokenDigest === undefined) requireOwnName(headers.host, listenName);
      else if (!hasToken(headers.authorization, tokenDigest))
        throw new Refusal(401, 'needs "Authorization: Bearer TOKEN" with the right token', {
          'www-authenticate': 'Bearer',
        });
    });
    server.listen({ host: address, port: Number(listen.slice(portStart + 1)) });
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return { server, url: `http://${family === 6 ? `[${address}]` : address}:${port}` };
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`cannot listen on http.listen ${listen}: ${describeError(error)}`, { cause: error });
  }
}

/** Returns the digest of the token. Throws `UsageError` without a token that nobody guesses. */
export async function readToken(listen: string, tokenFile: string | undefined): Promise<Buffer> {
  if (tokenFile === undefined)
    throw new UsageError(
      `http.listen: ${listen} is an address that other machines reach; set http.tokenFile to a file with a token, or listen on 127.0.0.1`,
    );
  const text = await readFile(tokenFile, 'utf8').catch((cause: Error) => {
    throw new UsageError(describeError(nameSetting(cause, 'http.tokenFile', tokenFile)), { cause });
  });
  const token = text.trim();
  if (!/^[\x21-\x7e]*$/.test(token) || token.length < MIN_TOKEN_LENGTH)
    throw new UsageError(
      `http.tokenFile: ${tokenFile} must hold one token of at least ${MIN_TOKEN_LENGTH} characters, such as "openssl rand -base64 24" prints`,
    );
  return digestOf(token);
}

/** A page in a browser of this machine could read the figures through a name of its own that leads to this address. */
function requireOwnName(host: string | undefined, listenName: string): void {
  const name = host?.replace(/:\d*$/, '').replaceAll(/[[\]]/g, '').toLowerCase();
  if (name !== undefined && name !== 'localhost' && name !== listenName.toLowerCase() && isIP(name) === 0)
    throw new Refusal(
      421,
      'without a token, the host in the URL must be an IP address, localhost or that of http.listen',
    );
}

function hasToken(authorization: string | undefined, tokenDigest: Buffer): boolean {
  const token = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
  // Digests have the same length, and their comparison takes the same time wherever they differ.
  return token !== undefined && timingSafeEqual(digestOf(token), tokenDigest);
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
