import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { CliError, describeError } from '../exit.js';

export interface HttpRequest {
  readonly query: URLSearchParams;
  /** Absent unless the route has `maxBodyBytes`. */
  readonly body?: string;
  /** Is aborted when the client leaves before the end of the response. */
  readonly signal: AbortSignal;
}

export interface HttpReply {
  /** 200 unless given. */
  readonly status?: number;
  /** Media type; plain text in UTF-8 unless given. */
  readonly type?: string;
  /** The whole text, or its parts as they become known. */
  readonly body: string | AsyncIterable<string>;
}

/** What a server answers to one method and path. A thrown `CliError` becomes status 400 with its message. */
export interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** Whether the route needs no token, and answers OPTIONS as GET, which load balancers send. */
  readonly isPublic?: boolean;
  /** Longest body of a request, in bytes; absent: a request has none. */
  readonly maxBodyBytes?: number;
  handle(request: HttpRequest): HttpReply | Promise<HttpReply>;
}

const MAX_HEADER_BYTES = 8192;
const MAX_HEADERS = 64;
/** Time in which a client sends a whole request, in milliseconds. */
const REQUEST_MS = 5000;
const IDLE_MS = 5000;

/** A request that is refused with a status. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
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
        if (response.headersSent) response.destroy();
        else sendFailure(response, error, log, request);
      });
    },
  );
  server.maxHeadersCount = MAX_HEADERS;
  // Without this listener every client that asks would be invited to send a body.
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
  const { headers, method = '', url = '/' } = request;
  const [path = '', query] = url.split('?', 2);
  const route = routes.find((candidate) => candidate.path === path);
  requireRight(route, request);
  if (!route) throw new Refusal(404, `no such page; there are ${routes.map((one) => one.path).join(', ')}`);
  // HAProxy checks health by OPTIONS unless told otherwise.
  const isGet = method === 'HEAD' || (method === 'OPTIONS' && route.isPublic);
  if ((isGet ? 'GET' : method) !== route.method)
    throw new Refusal(405, `${path} takes ${route.method}`, { allow: route.method });
  const length = Number(headers['content-length'] ?? 0);
  if (length > (route.maxBodyBytes ?? 0) || headers['transfer-encoding'] !== undefined)
    throw new Refusal(413, `a request has ${route.maxBodyBytes ? 'a shorter' : 'no'} body here`, {
      connection: 'close',
    });
  const departure = new AbortController();
  response.once('close', () => departure.abort());
  const body = length > 0 ? await text(request) : '';
  await sendReply(response, await route.handle({ query: new URLSearchParams(query), body, signal: departure.signal }));
}

async function sendReply(
  response: ServerResponse,
  { status = 200, type = 'text/plain; charset=utf-8', body }: HttpReply,
  extraHeaders?: Readonly<Record<string, string>>,
): Promise<void> {
  const headers = { 'content-type': type, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
  if (typeof body === 'string') {
    response.writeHead(status, { ...headers, ...extraHeaders, 'content-length': String(Buffer.byteLength(body)) });
    response.end(body);
    return;
  }
  response.writeHead(status, headers);
  response.flushHeaders();
  // A client that leaves ends the parts.
  await pipeline(Readable.from(body), response);
}

/** Tells the client why a request failed. Logs faults of the server. */
function sendFailure(response: ServerResponse, error: unknown, log: Logger, { method, url }: IncomingMessage): void {
  const isKnown = error instanceof Refusal || error instanceof CliError;
  // The path is that of a route, since no other request comes that far.
  if (!isKnown) log.error({ err: error, method, path: url?.split('?', 1)[0] }, 'an HTTP request failed');
  const [status, headers] = error instanceof Refusal ? [error.status, error.headers] : [isKnown ? 400 : 500];
  void sendReply(response, { status, body: `${describeError(error)}\n` }, headers);
}

const MAX_CONNECTIONS = 512;
const MAX_CONNECTIONS_OF_ADDRESS = 16;

/**
 * Bounds the connections of a server, and those from one address. A new connection takes the place of the connection
 * that has been idle longest; where all wait for responses, the place of the oldest request.
 */
function boundConnections(server: Server): void {
  /** Whether each connection waits for a response, in the order of their last begins and ends of requests. */
  const connections = new Map<Socket, boolean>();
  const renew = (socket: Socket, isBusy: boolean): void => {
    if (connections.delete(socket)) connections.set(socket, isBusy);
  };
  server.on('connection', (socket) => {
    const { remoteAddress } = socket;
    const all = [...connections];
    // Clients of a Unix socket have no address.
    const others = all.filter(([other]) => remoteAddress !== undefined && other.remoteAddress === remoteAddress);
    if (others.length >= MAX_CONNECTIONS_OF_ADDRESS) closeOne(others);
    else if (all.length >= MAX_CONNECTIONS) closeOne(all);
    connections.set(socket, false);
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', ({ socket }, response) => {
    renew(socket, true);
    response.once('close', () => renew(socket, false));
  });

  function closeOne(candidates: readonly (readonly [Socket, boolean])[]): void {
    const [socket] = candidates.find(([, isBusy]) => !isBusy) ?? candidates[0]!;
    connections.delete(socket);
    socket.destroy();
  }
}
