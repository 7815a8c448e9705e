import type { DerefAliases, Filter, Modification, PartialAttribute, Scope } from '../ldap/ldap-types.js';

/** LDAPv3 messages (RFC 4511 §4). Buffers are views into the received bytes: copy a value to keep it. */

export interface Control {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Buffer | undefined;
}

export interface BindRequest {
  readonly op: 'bind';
  readonly version: number;
  readonly name: string;
  readonly authentication:
    | { readonly method: 'simple'; readonly password: Buffer }
    | { readonly method: 'sasl'; readonly mechanism: string; readonly credentials: Buffer | undefined };
}
export interface UnbindRequest {
  readonly op: 'unbind';
}
export interface SearchRequest {
  readonly op: 'search';
  readonly base: string;
  readonly scope: Scope;
  readonly deref: DerefAliases;
  /** 0: the client sets no limit. */
  readonly sizeLimit: number;
  /** In seconds; 0: the client sets no limit. */
  readonly timeLimit: number;
  readonly typesOnly: boolean;
  readonly filter: Filter;
  readonly attributes: readonly string[];
}
export interface ModifyRequest {
  readonly op: 'modify';
  readonly dn: string;
  readonly changes: readonly Modification[];
}
export interface AddRequest {
  readonly op: 'add';
  readonly dn: string;
  readonly attributes: readonly PartialAttribute[];
}
export interface DeleteRequest {
  readonly op: 'delete';
  readonly dn: string;
}
export interface ModifyDnRequest {
  readonly op: 'modifyDN';
  readonly dn: string;
  readonly newRdn: string;
  readonly deleteOldRdn: boolean;
  readonly newSuperior: string | undefined;
}
export interface CompareRequest {
  readonly op: 'compare';
  readonly dn: string;
  readonly attribute: string;
  readonly value: Buffer;
}
export interface AbandonRequest {
  readonly op: 'abandon';
  /** messageID of the operation to abandon. */
  readonly target: number;
}
export interface ExtendedRequest {
  readonly op: 'extended';
  readonly oid: string;
  readonly value: Buffer | undefined;
}

export type Request =
  | BindRequest
  | UnbindRequest
  | SearchRequest
  | ModifyRequest
  | AddRequest
  | DeleteRequest
  | ModifyDnRequest
  | CompareRequest
  | AbandonRequest
  | ExtendedRequest;

export interface RequestMessage {
  readonly id: number;
  readonly request: Request;
  readonly controls: readonly Control[];
}

/** LDAPResult (RFC 4511 §4.1.9). */
export interface Result {
  readonly code: number;
  readonly matchedDN: string;
  readonly message: string;
  readonly referrals?: readonly string[] | undefined;
}

export type Response =
  | ({ readonly op: 'bindResponse'; readonly serverCredentials?: Buffer | undefined } & Result)
  | { readonly op: 'searchEntry'; readonly dn: string; readonly attributes: readonly PartialAttribute[] }
  | { readonly op: 'searchReference'; readonly urls: readonly string[] }
  | ({
      readonly op:
        | 'searchDone'
        | 'modifyResponse'
        | 'addResponse'
        | 'deleteResponse'
        | 'modifyDNResponse'
        | 'compareResponse';
    } & Result)
  | ({
      readonly op: 'extendedResponse';
      readonly oid?: string | undefined;
      readonly value?: Buffer | undefined;
    } & Result)
  | { readonly op: 'intermediate'; readonly oid?: string | undefined; readonly value?: Buffer | undefined };

export interface ResponseMessage {
  readonly id: number;
  readonly response: Response;
  readonly controls?: readonly Control[] | undefined;
}
