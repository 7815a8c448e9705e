import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { Dn } from '../schema/schema-types.js';
import type { Maybe } from '../store/contract.js';
import type { Actor, CompareOptions, Entry, Modifier, ModifyOptions, WriteOptions } from './model/directory-types.js';
import type { Viewer } from './model/viewer.js';
import type { SearchOutcome, SearchParams } from './read/search-params.js';
import type { SearchSink } from './read/sink.js';

/** The operations that the server calls. Every method throws `LdapError`, also for errors of the store. */
export interface Directory {
  search(params: SearchParams, sink: SearchSink): Maybe<SearchOutcome>;
  /** Returns the entry. Throws `noSuchObject` with matchedDN, or `referral` at or above `dn` unless manageDsaIT. */
  read(dn: Dn, options?: WriteOptions & { large?: boolean }): Promise<Entry>;
  readById(id: Buffer): Promise<Entry | undefined>;
  compare(dn: Dn, attribute: string, value: Buffer, viewer: Viewer, options?: CompareOptions): Maybe<boolean>;
  /** Resolves with the entryUUID. */
  add(dn: Dn, attributes: readonly PartialAttribute[], actor: Actor, options?: WriteOptions): Promise<Buffer>;
  modify(dn: Dn, changes: readonly Modification[] | Modifier, actor: Actor, options?: ModifyOptions): Promise<void>;
  rename(
    dn: Dn,
    to: { readonly newRdn: string; readonly deleteOldRdn: boolean; readonly newSuperior: string | undefined },
    actor: Actor,
    options?: WriteOptions,
  ): Promise<void>;
  delete(dn: Dn, actor: Actor, options?: WriteOptions): Promise<void>;
}
