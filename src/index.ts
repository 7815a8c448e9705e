/**
 * Rowan in a program of your own: a directory over a store, served to LDAP clients or mounted on a plain ldapjs server.
 * These names are kept stable; whatever else lies below `src` may change. docs/embedding.md has an example.
 */

export { formatFilter, parseFilter } from './ldap/filter-text.js';
export { LdapError, ResultCode, type ResultName, resultName } from './ldap/ldap-error.js';
export type { DerefAliases, Filter, Modification, PartialAttribute, Scope } from './ldap/ldap-types.js';
export { formatEntry, LdifParser, type LdifRecord, readLdif } from './ldif/index.js';
export type { Directory } from './partition/directory.js';
export { initDirectory, openSchema, Partition } from './partition/index.js';
export type {
  Actor,
  Breach,
  DeletedEntry,
  DirectorySettings,
  Entry,
  IndexInfo,
  LoadEntry,
} from './partition/model/directory-types.js';
export type { Viewer } from './partition/model/viewer.js';
export type { Explanation, SearchOutcome, SearchParams } from './partition/read/search-params.js';
export type { Hit, SearchSink } from './partition/read/sink.js';
export { hashPassword, isHashed, verifyPassword } from './password/index.js';
export { type Dn, Schema, SchemaError, type SchemaOptions } from './schema/index.js';
export { type MountableServer, mount, RowanServer } from './server/index.js';
export { type Config, makeConfig } from './server/settings/index.js';
export type { Store } from './store/contract.js';
export { openLmdbStore } from './store/lmdb/index.js';
export { openMemoryStore } from './store/memory/index.js';
export { StoreError, type StoreErrorCode } from './store/store-error.js';
