import type { LdapError, ResultName } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Rdn } from '../../schema/schema-types.js';
import type { Maybe } from '../../store/contract.js';

/** Who does it, for creatorsName, modifiersName and change records. */
export interface Actor {
  /** DN as text; '' for the server itself. */
  readonly dn: string;
  /** May write what NO-USER-MODIFICATION forbids (import, restore). */
  readonly system?: boolean;
  /** What it may write; absent: everything. */
  readonly access?: Access | undefined;
}

/** A write as it is asked for, before anything is read. */
export interface Asked {
  readonly op: 'add' | 'modify' | 'rename' | 'delete' | 'restore';
  readonly actor: Actor;
  /** Of an add and a modify: the attributes named, in the order of the request. */
  readonly types: readonly AttributeDescription[];
  /** Of an add and a rename: the RDN that the entry is to have. */
  readonly rdn?: Rdn;
}

/**
 * The entry that a write is done to, or for an add the one above. Its row is guarded: if the write succeeds, it was
 * this one.
 */
export interface FoundEntry {
  /** entryUUID. */
  readonly id: Buffer;
  readonly dn: Buffer;
  /** Undefined for an add. */
  readonly attributes:
    | readonly { readonly description: AttributeDescription; readonly values: readonly { readonly bytes: Buffer }[] }[]
    | undefined;
}

/** What somebody may write. Each gives what is said to who may not. */
export interface Access {
  /** Whatever the entry is: what is refused here is refused before anything is read. */
  asked(asked: Asked): LdapError | undefined;
  /** The entry, or the one above it, is not there or is no place for it, which `error` says. */
  missing(asked: Asked, error: LdapError): LdapError | undefined;
  /** In each attempt of the write. */
  found(asked: Asked, entry: FoundEntry): LdapError | undefined;
}

/** One attribute of an entry, as read. */
export interface EntryAttribute {
  /** Description as stored. */
  readonly description: string;
  readonly type: AttributeType;
  readonly values: readonly Buffer[];
}

/** An entry read whole, for operations that are not the search path. */
export interface Entry {
  /** entryUUID, 16 bytes. */
  readonly id: Buffer;
  readonly dn: string;
  readonly parentId: Buffer;
  readonly version: bigint;
  /** User and stored operational attributes, in stored order (large values included only when asked for). */
  readonly attributes: readonly EntryAttribute[];
  /** Packed master row. */
  readonly row: Buffer;
}

export interface WriteOptions {
  readonly manageDsaIT?: boolean;
  /** Throws `LongWork`, with nothing done, where the entry is so long that the event loop would stand still. */
  readonly leaveLong?: boolean;
}

export interface ModifyOptions extends WriteOptions {
  /** Descriptions of all that `ChangesOf` will change: where others have many values, these are not read. */
  readonly touches?: readonly string[];
}

/** An entry as one attempt of a write has read it; its plan comes true only while the row is this one. */
export interface Target {
  readonly id: Buffer;
  /** Packed master row. */
  readonly row: Buffer;
}

/**
 * Changes that depend on the entry, and the right to make them. Called in each attempt, since another attempt may find
 * another entry under the name; what it throws ends the write with nothing done.
 */
export type ChangesOf = (target: Target) => Maybe<readonly Modification[]>;

/** What `initDirectory` writes and every front end shares (table `meta`). */
export interface DirectorySettings {
  /** As given. */
  readonly suffixes: readonly string[];
  readonly adminDn: string;
  /** Stored form, hashed. */
  readonly adminPassword: Buffer;
  /** Random 32 bytes that sign page cookies. */
  readonly cookieKey: Buffer;
}

export interface IndexInfo {
  readonly attribute: string;
  readonly oid: string;
  /** Also for any and final substrings. */
  readonly substring: boolean;
  /** Also for presence: not where every entry has the attribute. */
  readonly presence: boolean;
  readonly state: 'ready' | 'building';
}

export interface Breach {
  /** Which invariant, one word: `parent`, `treeRow`, `id`, `cycle`, `count`, `normAttributes`, `index`, `row`, … */
  readonly invariant: string;
  /** entryUUID or row key, as text. */
  readonly where: string;
  readonly message: string;
}

export interface DeletedEntry {
  readonly id: Buffer;
  /** entryUUID of the entry above it. */
  readonly parentId: Buffer;
  readonly dn: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly by: string;
}

/** Where an entry of a load came from. */
export interface LoadSource {
  /** For messages: where the record began. */
  readonly line: number;
}

/** A record for the bulk loader. */
export interface LoadEntry extends LoadSource {
  readonly dn: string;
  readonly attributes: readonly PartialAttribute[];
  /** What comes back with a reject, instead of the entry: the loader then lets go of its attributes early. */
  readonly source?: LoadSource;
}

export interface LoadReject {
  readonly entry: LoadSource;
  readonly reason: string;
  /**
   * Result code that an add would have ended with, where there is one: an interrupted import takes `entryAlreadyExists`
   * for done.
   */
  readonly result?: ResultName | undefined;
}

export interface LoadProgress {
  readonly loaded: number;
  readonly rejected: number;
}
