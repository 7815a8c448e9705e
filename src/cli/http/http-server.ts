import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { CliError, describeError } from '../exit.js';
import { boundConnections } from './bounded-connections.js';
import type { HttpReply, Route } from './route.js';

const MAX_HEADER_BYTES = 8192;
const MAX_HEADERS = 64;
/** Time in which a client sends a whole request, in milliseconds. */
const REQUEST_MS = 5000;
const IDLE_MS = 5000;

/** A request that is refused with a status. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Throws `Refusal` when the client may not use a route; undefined: no such route. */
type RequireRight = (route: Route | undefined, request: IncomingMessage) => void;

/** Returns an HTTP server for these routes, which any client may use by default. */
export function createHttpServer(
  routes: readonly Route[],
  log: Logger,
  requireRight: RequireRight = () => undefined,
): Server {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      keepAliveTimeout: IDLE_MS,
      connectionsCheckingInterval: 1000,
    },
    (request, response) => {
      respond(routes, requireRight, request, response).catch((error: unknown) => {
        if (!response.headersSent) sendText(response, ...failureOf(error, log, request));
        else response.destroy();
      });
    },
  );
  server.maxHeadersCount = MAX_HEADERS;
  // Without this listener every client that asks would be invited to send its body.
  server.on('checkContinue', (request, response) => server.emit('request', request, response));
  boundConnections(server);
  return server;
}

async function respond(
  routes: readonly Route[],
  requireRight: RequireRight,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = request.url ?? '/';
  const [path = '', query] = url.split('?', 2);
  const routesOfPath = routes.filter((route) => route.path === path);
  // HAProxy checks health by OPTIONS unless told otherwise.
  const isGet = request.method === 'HEAD' || (request.method === 'OPTIONS' && routesOfPath[0]?.isPublic);
  const method = isGet ? 'GET' : request.method;
  const route = routesOfPath.find((candidate) => candidate.method === method);
  requireRight(route, request);
  if (routesOfPath.length === 0) throw new Refusal(404, `no such page; there are ${pathsOf(routes)}`);
  if (!route) {
    const methods = routesOfPath.map((candidate) => candidate.method).join(', ');
    response.setHeader('allow', methods);
    throw new Refusal(405, `${path} takes ${methods}`);
  }
  const body = await readBody(request, response, route.maxBodyBytes ?? 0);
  const departure = new AbortController();
  response.once('close', () => departure.abort());
  await sendReply(response, await route.handle({ query: new URLSearchParams(query), body, signal: departure.signal }));
}

function pathsOf(routes: readonly Route[]): string {
  return [...new Set(routes.map(({ path }) => path))].join(', ');
}

async function readBody(request: IncomingMessage, response: ServerResponse, maxBytes: number): Promise<string> {
  const { headers, httpVersion } = request;
  const requireFits = (length: number): void => {
    if (length > maxBytes) throw new Refusal(413, `the body of the request has more than ${maxBytes} bytes`);
  };
  requireFits(Number(headers['content-length'] ?? 0));
  if (headers.expect !== undefined && httpVersion === '1.1') response.writeContinue();
  const chunks: Buffer[] = [];
  let byteCount = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    byteCount += chunk.length;
    requireFits(byteCount);
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

/** Returns status and text of the response to a request that failed. Logs faults of the server. */
function failureOf(error: unknown, log: Logger, request: IncomingMessage): [number, string] {
  if (error instanceof Refusal) return [error.status, `${error.message}\n`];
  if (error instanceof CliError) return [400, `${error.message}\n`];
  if (error === request.errored) return [400, 'the body of the request has not arrived\n'];
  // The path is that of a route, since no other request comes that far.
  log.error({ err: error, method: request.method, path: request.url?.split('?', 1)[0] }, 'an HTTP request failed');
  return [500, `${describeError(error)}\n`];
}
