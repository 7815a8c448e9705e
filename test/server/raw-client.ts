import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { decodeResponse } from '../../src/protocol/decode-response.js';
import { encodeRequest } from '../../src/protocol/encode.js';
import { Framer } from '../../src/protocol/framing.js';
import type { Control, Request, Response, ResponseMessage, SearchRequest } from '../../src/protocol/ldap-messages.js';
import { int, seq } from '../protocol/bytes.js';
import { waitFor } from '../waits.js';

type Final = Extract<Response, { code: number }>;

/** How an operation was answered. */
export interface Answer {
  readonly final: Final;
  readonly code: number;
  readonly controls: readonly Control[];
  readonly entries: readonly {
    readonly dn: string;
    readonly attributes: ReadonlyMap<string, readonly Buffer[]>;
    readonly controls: readonly Control[];
  }[];
  readonly references: readonly (readonly string[])[];
}

const NOTHING = { type: 'present', attribute: 'objectClass' } as const;

/** The entry in a response control (RFC 4527); undefined: the response has no such control. */
export function entryIn(
  { controls }: Answer,
  oid: string,
): { readonly dn: string; readonly attributes: ReadonlyMap<string, readonly Buffer[]> } | undefined {
  const value = controls.find((one) => one.oid === oid)?.value;
  if (!value) return undefined;
  const bytes = seq(int(1), value);
  const { response } = decodeResponse(bytes, 0, bytes.length);
  if (response.op !== 'searchEntry') throw new Error(response.op);
  return { dn: response.dn, attributes: new Map(response.attributes.map((a) => [a.type, a.values])) };
}

/** A search for everything at `base`; say what differs. */
export function searchRequest(base: string, parts: Partial<SearchRequest> = {}): SearchRequest {
  const limits = { sizeLimit: 0, timeLimit: 0, typesOnly: false } as const;
  return { op: 'search', base, scope: 'base', deref: 'never', ...limits, filter: NOTHING, attributes: [], ...parts };
}

export function simpleBind(name: string, password: string | Buffer): Request {
  return { op: 'bind', version: 3, name, authentication: { method: 'simple', password: Buffer.from(password) } };
}

/** An LDAP client that sends what it is told, however wrong, and keeps all that comes back. */
export class RawClient {
  socket: Socket;
  #framer = new Framer({ maxMessageBytes: 256 * 1024 * 1024 });
  #messages: ResponseMessage[] = [];
  #id = 0;
  #wake: (() => void)[] = [];
  closed = false;
  /** The operations that were answered, in the order of the answers. */
  readonly answered: number[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
    this.listenTo(socket);
  }

  /** With `allowHalfOpen` it does not close when the server does. */
  static async open(port: number, allowHalfOpen = false): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen });
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  /** Goes on with another socket: TLS over the first one. */
  listenTo(socket: Socket): void {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.#framer.push(chunk);
      for (let frame = this.#framer.next(); frame; frame = this.#framer.next()) {
        const message = decodeResponse(frame.buffer, frame.start, frame.end);
        this.#messages.push(message);
        if ('code' in message.response) this.answered.push(message.id);
      }
      this.#awake();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      if (socket !== this.socket) return;
      this.closed = true;
      this.#awake();
    });
  }

  #awake(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const wake of waiting) wake();
  }

  /** Resolves with the first thing that `find` gives; undefined when the connection ends before. */
  async #until<T>(find: () => T | undefined): Promise<T | undefined> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (this.closed) return undefined;
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  nextId(): number {
    return ++this.#id;
  }

  write(bytes: Buffer): void {
    this.socket.write(bytes);
  }

  /** Sends a request; its messageID. */
  send(request: Request, controls: readonly Control[] = []): number {
    const id = this.nextId();
    this.write(encodeRequest({ id, request, controls }));
    return id;
  }

  /** Sends all in one write. */
  sendTogether(requests: readonly Request[]): number[] {
    const ids = requests.map(() => this.nextId());
    this.write(Buffer.concat(requests.map((request, i) => encodeRequest({ id: ids[i]!, request, controls: [] }))));
    return ids;
  }

  /** The answer to request `id`. Throws when the connection ends without it. */
  async answer(id: number): Promise<Answer> {
    const isFinal = (m: ResponseMessage): boolean => m.id === id && 'code' in m.response;
    const last = await waitFor(
      `the answer to request ${id}`,
      this.#until(() => this.#messages.find(isFinal)),
    );
    if (!last) throw new Error(`the connection ended before request ${id} was answered`);
    const end = this.#messages.indexOf(last);
    const isMine = (m: ResponseMessage, i: number): boolean => m.id === id && i <= end;
    const mine = this.#messages.filter(isMine);
    this.#messages = this.#messages.filter((m, i) => !isMine(m, i));
    const final = last.response as Final;
    const entries = mine.flatMap(({ response: r, controls = [] }) =>
      r.op === 'searchEntry'
        ? [{ dn: r.dn, attributes: new Map(r.attributes.map((a) => [a.type, a.values])), controls }]
        : [],
    );
    const references = mine.flatMap(({ response: r }) => (r.op === 'searchReference' ? [r.urls] : []));
    return { final, code: final.code, controls: last.controls ?? [], entries, references };
  }

  /**
   * The first message about operation `id` that has not been taken; undefined when the connection ends before. For
   * operations whose messages matter as they come.
   */
  async take(id: number): Promise<ResponseMessage | undefined> {
    const isMine = (m: ResponseMessage): boolean => m.id === id;
    const first = await waitFor(
      `a message of request ${id}`,
      this.#until(() => this.#messages.find(isMine)),
    );
    this.#messages = this.#messages.filter((m) => m !== first);
    return first;
  }

  request(request: Request, controls: readonly Control[] = []): Promise<Answer> {
    return this.answer(this.send(request, controls));
  }

  async bind(name: string, password: string): Promise<number> {
    return (await this.request(simpleBind(name, password))).code;
  }

  search(base: string, parts: Partial<SearchRequest> = {}, controls: readonly Control[] = []): Promise<Answer> {
    return this.request(searchRequest(base, parts), controls);
  }

  /** The unsolicited notification that ends the connection; undefined when it ends without one. */
  async notice(): Promise<Final | undefined> {
    const found = await this.#until(() => this.#messages.find((m) => m.id === 0));
    return found?.response as Final | undefined;
  }

  /** Sends `request` and searches behind it, which are answered first; the messageID of the request. */
  async overtaken(request: Request): Promise<number> {
    const [id, ...behind] = this.sendTogether([request, ...Array.from({ length: 5 }, () => searchRequest(''))]);
    for (const one of behind) expect((await this.answer(one)).code).to.equal(0);
    expect(this.answered.slice(0, this.answered.lastIndexOf(behind.at(-1)!))).to.not.include(id);
    return id!;
  }

  /** Whether anything of operation `id` has come so far. */
  hasHeardOf(id: number): boolean {
    return this.#messages.some((m) => m.id === id);
  }

  async ended(): Promise<void> {
    await this.#until(() => (this.closed ? true : undefined));
  }

  close(): void {
    this.socket.destroy();
  }
}
