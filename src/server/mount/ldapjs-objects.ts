import type { Socket } from 'node:net';

/** What of ldapjs 3 the mount uses and its types leave out or have otherwise. */

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
  /** Of extended requests. */
  readonly requestName?: string;
  /**
   * Of extended requests: what ldapjs could read of it, undefined where that is nothing. Of a password modify an
   * object.
   */
  readonly requestValue?: unknown;
  /** The request in BER again. */
  toBer(): { readonly buffer: Buffer };
}

export interface BerWriter {
  writeString(text: string, tag: number): void;
  writeBuffer(bytes: Buffer, tag: number): void;
}

export interface LdapjsResponse {
  status: number;
  matchedDN: string;
  diagnosticMessage: string;
  /** Appends what an extended response has beyond its result. */
  _writeResponse?: (ber: BerWriter) => BerWriter;
  addReferral(url: string): void;
  addControl(control: unknown): void;
  /** Of search responses. */
  send(message: unknown): void;
  createSearchEntry(parts: { objectName: string; attributes: unknown[] }): unknown;
  createSearchReference(urls: string[]): unknown;
  end(status: number): void;
}

export type LdapjsHandler = (request: LdapjsRequest, response: LdapjsResponse, next: (error?: Error) => void) => void;

/** `ldapjs.createServer()`. */
export interface LdapjsServer {
  search(name: string, handler: LdapjsHandler): unknown;
  bind(name: string, handler: LdapjsHandler): unknown;
  add(name: string, handler: LdapjsHandler): unknown;
  del(name: string, handler: LdapjsHandler): unknown;
  modify(name: string, handler: LdapjsHandler): unknown;
  modifyDN(name: string, handler: LdapjsHandler): unknown;
  compare(name: string, handler: LdapjsHandler): unknown;
  exop(oid: string, handler: LdapjsHandler): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}
