import type { LdapError, ResultName } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Rdn } from '../../schema/schema-types.js';
import type { Maybe, PlanStep } from '../../store/contract.js';
import type { Node } from './node.js';
import type { Viewer } from './viewer.js';

/** Who does it, for creatorsName, modifiersName and change records. */
export interface Actor {
  /** DN as text; '' for the server itself. */
  readonly dn: string;
  /** May write what NO-USER-MODIFICATION forbids (import, restore). */
  readonly system?: boolean;
  /** What it may write; absent: everything. */
  readonly access?: Access | undefined;
}

/** What is done to an attribute by a request. */
export interface AttributeChange {
  readonly how: 'add' | 'delete' | 'replace';
  readonly description: AttributeDescription;
}

/** A write as it is asked for, before anything is read. */
export interface Asked {
  readonly op: 'add' | 'modify' | 'rename' | 'delete' | 'restore';
  readonly actor: Actor;
  /** Of an add and a modify: what is done to attributes, in the order of the request. */
  readonly changes: readonly AttributeChange[];
  /** Of an add and a rename: the RDN that the entry is to have. */
  readonly rdn?: Rdn;
}

/** An entry that a write meets: the one that it is done to, or the one above its place. */
export interface MetEntry {
  readonly node: Node;
  /** Packed master row, with the values of the types that `Viewer.looksInto` names; of the root it is empty. */
  readonly row: Buffer;
}

/** A rename or a move, when both places are known. */
export interface Moved {
  readonly entry: MetEntry;
  /** It gets another RDN. */
  readonly renamed: boolean;
  /** The entry right above its new place, where that is another. */
  readonly superior: MetEntry | undefined;
  /** What the new RDN adds to the entry's attributes, and what goes with the old one. */
  readonly changes: readonly AttributeChange[];
}

/**
 * What somebody may write. Each that gives an error gives what is said to who may not. What rights depend on is read by
 * `renew`; the others answer at once.
 */
export interface Access {
  /** Called at the start of each attempt: what follows is decided by what is in force now. */
  renew(): Maybe<void>;
  /** Version of the access rules it decides by: a plan holds only while they are in force. Undefined: above rules. */
  readonly version: number | undefined;
  readonly viewer: Viewer;
  /** Whatever the entry is: what is refused here is refused before anything is read. */
  asked(asked: Asked): LdapError | undefined;
  /**
   * When the entry that it is done to has been read, or of an add the one above; before its values are looked at. It is
   * there for who asks.
   */
  found(asked: Asked, entry: MetEntry): LdapError | undefined;
  /** Of an add: the entry as it will be, without what the server keeps. */
  added(asked: Asked, entry: MetEntry): LdapError | undefined;
  moved(moved: Moved): LdapError | undefined;
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

/** What comes true together with a write, or not at all. */
export interface Also {
  /** Go into the plan of the change, on rows that no entry has. */
  readonly steps: readonly PlanStep[];
  /**
   * Called when a guard of the plan did not hold, of these steps or of another. Throws what ends the write, with
   * nothing done, where these will not hold any more; else another attempt is made.
   */
  missed(): Maybe<void>;
}

export interface WriteOptions {
  readonly manageDsaIT?: boolean;
  readonly also?: Also | undefined;
  /** Throws `LongWork`, with nothing done, where the entry is so long that the event loop would stand still. */
  readonly leaveLong?: boolean;
}

export interface CompareOptions extends WriteOptions {
  /** As `SearchParams` has it. */
  readonly ownGroups?: boolean;
}

export interface ModifyOptions extends WriteOptions {
  /** Descriptions of all that `ChangesOf` will change: where others have many values, these are not read. */
  readonly touches?: readonly string[];
  /** The changes bring references up to date with changed names. */
  readonly settles?: boolean;
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
export type ChangesOf = (target: Target) => Maybe<readonly Modification[] | KeptChanges>;

/** Changes that are asked for, and those that the server makes with them, which nobody needs a right for. */
export interface KeptChanges {
  readonly asked: readonly Modification[];
  readonly kept: readonly Modification[];
}

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
