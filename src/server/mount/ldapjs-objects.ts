import type { Socket } from 'node:net';

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

export interface BerWriter {
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
