import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { CliError, describeError } from '../exit.js';
import type { HttpReply, Route } from './route.js';

const MAX_HEADER_BYTES = 8192;
const MAX_HEADERS = 64;
/** Time in which a client sends a whole request, in milliseconds. */
const REQUEST_MS = 10_000;
const IDLE_MS = 60_000;
const MAX_CONNECTIONS = 64;

/** A request that is refused with a status. */
class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Tells whether the client may use a route; undefined: a path without a route. */
type MayUse = (route: Route | undefined, request: IncomingMessage) => boolean;

/** Returns an HTTP server for these routes, which any client may use by default. */
export function createHttpServer(routes: readonly Route[], log: Logger, mayUse: MayUse = () => true): Server {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      keepAliveTimeout: IDLE_MS,
      connectionsCheckingInterval: 1000,
    },
    (request, response) => {
      respond(routes, mayUse, request, response).catch((error: unknown) => {
        if (!response.headersSent) sendText(response, ...failureOf(error, log, request));
        else response.destroy();
      });
    },
  );
  server.maxHeadersCount = MAX_HEADERS;
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

async function respond(
  routes: readonly Route[],
  mayUse: MayUse,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = request.url ?? '/';
  const [path = '', query] = url.split('?', 2);
  const routesOfPath = routes.filter((route) => route.path === path);
  const method = request.method === 'HEAD' || request.method === 'OPTIONS' ? 'GET' : request.method;
  const route = routesOfPath.find((candidate) => candidate.method === method);
  if (!mayUse(route, request)) throw new Refusal(401, 'needs "Authorization: Bearer TOKEN" with the right token');
  if (routesOfPath.length === 0) throw new Refusal(404, `no such page; there are ${pathsOf(routes)}`);
  if (!route) throw new Refusal(405, `${path} takes ${routesOfPath.map((candidate) => candidate.method).join(', ')}`);
  const body = await readBody(request, route.maxBodyBytes ?? 0);
  const departure = new AbortController();
  response.once('close', () => departure.abort());
  await sendReply(response, await route.handle({ query: new URLSearchParams(query), body, signal: departure.signal }));
}

function pathsOf(routes: readonly Route[]): string {
  return [...new Set(routes.map(({ path }) => path))].join(', ');
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let byteCount = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    byteCount += chunk.length;
    if (byteCount > maxBytes) throw new Refusal(413, `the body of the request has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

async function sendReply(response: ServerResponse, { status = 200, type, body }: HttpReply): Promise<void> {
  if (typeof body === 'string') {
    sendText(response, status, body, type);
    return;
  }
  response.writeHead(status, headersFor(type));
  response.flushHeaders();
  // A client that leaves ends the parts.
  await pipeline(Readable.from(body), response);
}

function headersFor(type = 'text/plain; charset=utf-8'): Record<string, string> {
  return { 'content-type': type, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
}

function sendText(response: ServerResponse, status: number, text: string, type?: string): void {
  const extraHeaders: Record<string, string> = {};
  if (status === 401) extraHeaders['www-authenticate'] = 'Bearer';
  // The rest of a body that is too long is not read.
  if (status === 413) extraHeaders.connection = 'close';
  const length = String(Buffer.byteLength(text));
  response.writeHead(status, { ...headersFor(type), ...extraHeaders, 'content-length': length });
  response.end(text);
}

/** Returns status and text of the response to a request that failed. */
function failureOf(error: unknown, log: Logger, { method, url }: IncomingMessage): [number, string] {
  if (error instanceof Refusal) return [error.status, `${error.message}\n`];
  if (error instanceof CliError) return [400, `${error.message}\n`];
  log.error({ err: error, method, url }, 'an HTTP request failed');
  return [500, `${describeError(error)}\n`];
}
