import { readFileSync } from 'node:fs';
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { ResultCode } from '../ldap/ldap-error.js';
import { decodeResponse } from '../protocol/decode-response.js';
import { encodeRequest } from '../protocol/encode.js';
import { Framer } from '../protocol/framing.js';
import type { Control, Request, ResponseMessage, Result } from '../protocol/ldap-messages.js';

/** Longest message that a primary sends: a row with its cells, in bytes. */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;
/** A connection that is silent for this long while an answer is due is broken, in ms. */
const SILENCE_MS = 15_000;

/** A server that refused a request. */
export class RefusedError extends Error {
  readonly code: number;

  constructor({ code, message }: Result) {
    super(`${message || 'no reason given'} (${code})`);
    this.code = code;
  }
}

export interface ServerAccess {
  /** `ldaps://host:port`, `ldapi://%2fpath`, or `ldap://host:port` where `urlProblem` was not asked. */
  readonly url: string;
  readonly bindDn: string;
  readonly password: Buffer;
  /** File with the certificates that the server's is checked against; undefined: those of the system. */
  readonly tlsCa?: string | undefined;
}

interface Waiting {
  readonly onMessage: (message: ResponseMessage) => void;
  readonly onEnd: (error: Error) => void;
}

/** Returns what is wrong with the URL of a server to follow; undefined: nothing. */
export function urlProblem(url: string): string | undefined {
  if (/^ldaps:\/\/[^/]+$/.test(url) || /^ldapi:\/\/%2f[^/]*$/i.test(url)) return undefined;
  return `'${url}': give ldaps://host:port or ldapi://%2Fpath; secrets are sent, so ldap:// is refused`;
}

/** A connection to an LDAP server, with requests in flight. */
export class LdapClient {
  readonly #socket: Socket;
  readonly #framer = new Framer({ maxMessageBytes: MAX_MESSAGE_BYTES });
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #error: Error | undefined;
  /** Called once when the connection has ended. */
  onClose: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    let cause: Error | undefined;
    socket.on('error', (error) => {
      cause = error;
    });
    socket.on('close', () => this.#end(cause ?? new Error('the connection was closed')));
    socket.setTimeout(SILENCE_MS, () => {
      // A paused socket waits for this side.
      if (this.#waiting.size > 0 && !socket.isPaused())
        socket.destroy(new Error(`no answer for ${SILENCE_MS / 1000} s`));
    });
  }

  /** Connects and binds. Rejects with the reason, or with `RefusedError`. */
  static async connect({ url, bindDn, password, tlsCa }: ServerAccess): Promise<LdapClient> {
    const client = new LdapClient(await openSocket(url, tlsCa));
    try {
      const authentication = { method: 'simple', password } as const;
      await client.require({ op: 'bind', version: 3, name: bindDn, authentication });
      return client;
    } catch (error) {
      client.close();
      throw error;
    }
  }

  #read(chunk: Buffer): void {
    try {
      this.#framer.push(chunk);
      for (let frame = this.#framer.next(); frame; frame = this.#framer.next()) {
        const message = decodeResponse(frame.buffer, frame.start, frame.end);
        if (message.id === 0) throw new Error('the server ends the connection');
        this.#waiting.get(message.id)?.onMessage(message);
      }
    } catch (error) {
      this.#socket.destroy(error as Error);
    }
  }

  #end(error: Error): void {
    if (this.#error) return;
    this.#error = error;
    for (const { onEnd } of this.#waiting.values()) onEnd(error);
    this.#waiting.clear();
    this.onClose?.(error);
  }

  get isClosed(): boolean {
    return this.#error !== undefined;
  }

  /**
   * Sends a request. Calls `onMessage` for each response but the last, which the promise resolves with; the socket is
   * not read while a promise that it returns is pending. The promise is settled when no `onMessage` is at work.
   */
  async request(
    request: Request,
    controls: readonly Control[] = [],
    onMessage?: (message: ResponseMessage) => Promise<void>,
  ): Promise<ResponseMessage> {
    if (this.#error) throw this.#error;
    const id = ++this.#lastId;
    try {
      return await new Promise<ResponseMessage>((resolve, reject) => {
        let lastWork = Promise.resolve();
        let pendingCount = 0;
        const handle = async (message: ResponseMessage): Promise<void> => {
          pendingCount++;
          this.#socket.pause();
          await lastWork;
          await onMessage?.(message);
          if (--pendingCount === 0) this.#socket.resume();
        };
        this.#waiting.set(id, {
          onMessage: (message) => {
            if (!isIntermediate(message)) void lastWork.then(() => resolve(message), reject);
            else {
              lastWork = handle(message);
              lastWork.catch(reject);
            }
          },
          // What has come is handled first: nobody else may begin while `onMessage` is at work.
          onEnd: (error) => void lastWork.then(() => reject(error), reject),
        });
        this.#socket.write(encodeRequest({ id, request, controls }));
      });
    } finally {
      this.#waiting.delete(id);
      this.#socket.resume();
    }
  }

  /** As `request`; rejects with `RefusedError` unless the result is success. */
  async require(...args: Parameters<LdapClient['request']>): Promise<ResponseMessage> {
    const message = await this.request(...args);
    const result = message.response as Result & typeof message.response;
    if (result.code !== ResultCode.success) throw new RefusedError(result);
    return message;
  }

  close(): void {
    this.#socket.destroy();
    this.#end(new Error('the connection was closed'));
  }
}

function isIntermediate({ response: { op } }: ResponseMessage): boolean {
  return op === 'intermediate' || op === 'searchEntry' || op === 'searchReference';
}

function openSocket(url: string, tlsCa: string | undefined): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const isLocal = /^ldapi:/i.test(url);
    const { hostname, port } = isLocal ? { hostname: '', port: '' } : new URL(url);
    const host = hostname.replace(/^\[|\]$/g, '');
    const isPlain = /^ldap:/i.test(url);
    const socket = isLocal
      ? connectPlain(decodeURIComponent(url.slice('ldapi://'.length)))
      : isPlain
        ? connectPlain({ host, port: Number(port || 389) })
        : connectTls({ host, port: Number(port || 636), ...(tlsCa && { ca: readFileSync(tlsCa) }) });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(new Error(`${url}: ${error.message}`, { cause: error }));
    };
    socket.once('error', fail);
    socket.setTimeout(SILENCE_MS, () => fail(new Error(`no answer for ${SILENCE_MS / 1000} s`)));
    socket.once(isLocal || isPlain ? 'connect' : 'secureConnect', () => {
      socket.off('error', fail);
      socket.removeAllListeners('timeout').setTimeout(0);
      // `close` follows, and tells why the connection ended.
      socket.on('error', () => undefined).setNoDelay(true);
      resolve(socket);
    });
  });
}
