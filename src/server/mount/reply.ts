import type { Socket } from 'node:net';
import ldapjs from 'ldapjs';
import { chain, type Maybe } from '../../partition/index.js';
import { decodePagedResults } from '../../protocol/controls/paged-results.js';
import { decodeResponse } from '../../protocol/decode-response.js';
import type { Control } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { contextTag, OCTET_STRING } from '../../protocol/tags.js';
import { Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import type { SearchReply } from '../request/context.js';
import type { Services } from '../services/services.js';
import type { Outcome } from '../words/outcome.js';

/** Types of the parts of ldapjs 3 that the mount uses and that the published types lack or declare differently. */

export interface MountedConnection extends Socket {
  readonly ldap: { bindDN: unknown };
  readonly parser: {
    prependListener(event: 'message', listener: (request: { readonly type: string }) => void): unknown;
    prependListener(event: 'error', listener: () => void): unknown;
  };
}

export interface LdapjsRequest {
  readonly messageId: number;
  readonly type: string;
  readonly connection: MountedConnection;
  readonly requestName?: string;
  /** Value of an extended request if ldapjs could decode it: an object for a password modify request. */
  readonly requestValue?: unknown;
  toBer(): { readonly buffer: Buffer };
}

interface BerWriter {
  writeString(text: string, tag: number): void;
  writeBuffer(bytes: Buffer, tag: number): void;
}

export interface LdapjsResponse {
  status: number;
  matchedDN: string;
  diagnosticMessage: string;
  /** Hook that appends fields of an extended response after its result. */
  _writeResponse?: (ber: BerWriter) => BerWriter;
  addReferral(url: string): void;
  addControl(control: unknown): void;
  send(message: unknown): void;
  createSearchEntry(parts: { objectName: string; attributes: unknown[] }): unknown;
  createSearchReference(urls: string[]): unknown;
  end(status: number): void;
}

export type LdapjsHandler = (request: LdapjsRequest, response: LdapjsResponse, next: (error?: Error) => void) => void;

/** Methods of an ldapjs server that add a handler for an operation at a DN. */
export const ROUTES = ['search', 'bind', 'add', 'del', 'modify', 'modifyDN', 'compare'] as const;

/** A server of `ldapjs.createServer()` for callers of `mount`, without types of ldapjs. */
export type MountableServer = Readonly<Record<(typeof ROUTES)[number] | 'exop' | 'on', (...args: never[]) => unknown>>;

/** The methods of the server with the types that the mount relies on. */
export interface LdapjsServer extends Record<(typeof ROUTES)[number], (dn: string, handler: LdapjsHandler) => unknown> {
  exop(oid: string, handler: LdapjsHandler): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** Unsent bytes of the socket from which a search waits. ldapjs has no back-pressure of its own. */
const MAX_UNSENT_BYTES = 1024 * 1024;

/** Converts results of a search to SearchEntry and SearchReference messages of ldapjs. */
export class LdapjsReply implements SearchReply {
  readonly #services: Services;
  readonly #response: LdapjsResponse;
  readonly #messageId: number;
  readonly #connection: MountedConnection;

  constructor(services: Services, response: LdapjsResponse, messageId: number, connection: MountedConnection) {
    this.#services = services;
    this.#response = response;
    this.#messageId = messageId;
    this.#connection = connection;
  }

  entry(entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    const writer = new Writer();
    // ldapjs accepts only whole messages.
    const writeChunked = async (chunks: AsyncIterable<Buffer>): Promise<number> => {
      for await (const chunk of chunks) writer.raw(chunk);
      return writer.length;
    };
    const output = { writer, writeChunked };
    const encoding = this.#services.encoder.encode(output, this.#messageId, entry, selection, typesOnly);
    return chain(encoding, () => this.#send(writer.take()));
  }

  #send(message: Buffer): Maybe<void> {
    const { response } = decodeResponse(message);
    if (response.op !== 'searchEntry') throw new TypeError(`${response.op} is no entry`);
    const attributes = response.attributes.map(
      ({ type, values }) => new ldapjs.Attribute({ type, values: [...values] as never }),
    );
    this.#response.send(this.#response.createSearchEntry({ objectName: response.dn, attributes }));
    return this.#waitForDrain();
  }

  reference(urls: readonly string[]): Maybe<void> {
    this.#response.send(this.#response.createSearchReference([...urls]));
    return this.#waitForDrain();
  }

  #waitForDrain(): Maybe<void> {
    const socket = this.#connection;
    if (socket.writableLength < MAX_UNSENT_BYTES || socket.destroyed) return;
    return new Promise((resolve) => {
      const resume = (): void => {
        socket.off('drain', resume).off('close', resume);
        resolve();
      };
      socket.on('drain', resume).on('close', resume);
    });
  }
}

export function sendOutcome(response: LdapjsResponse, outcome: Outcome): void {
  response.matchedDN = outcome.matchedDN;
  response.diagnosticMessage = outcome.message;
  for (const url of outcome.referrals ?? []) response.addReferral(url);
  for (const control of outcome.controls ?? []) response.addControl(ldapjsControl(control));
  if (outcome.oid !== undefined || outcome.value !== undefined) addExtendedFields(response, outcome);
  response.end(outcome.code);
}

/** Adds the OID and value of an extended response through a hook, because ldapjs would write it as text. */
function addExtendedFields(response: LdapjsResponse, { oid, value }: Outcome): void {
  response._writeResponse = (ber) => {
    if (oid !== undefined) ber.writeString(oid, contextTag(10));
    if (value !== undefined && value.length > 0) ber.writeBuffer(value, contextTag(11));
    else if (value !== undefined) ber.writeString('', contextTag(11));
    return ber;
  };
}

/** Converts a control. ldapjs would write values of controls unknown to it as text, so `_toBer` is replaced. */
function ldapjsControl({ oid, critical, value }: Control): unknown {
  const controls = ldapjs as unknown as Record<string, new (options: object) => object>;
  if (oid !== ControlOid.pagedResults) {
    const _toBer = (ber: { writeBuffer(bytes: Buffer, tag: number): void }): void => {
      if (value !== undefined) ber.writeBuffer(value, OCTET_STRING);
    };
    return Object.assign(new controls.Control!({ type: oid, criticality: critical }), { _toBer });
  }
  return new controls.PagedResultsControl!({ criticality: critical, value: decodePagedResults(value) });
}
