import type { LdapError, ResultName } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Rdn } from '../../schema/schema-types.js';
import type { Maybe, PlanStep } from '../../store/contract.js';
import type { Node } from './node.js';
import type { Viewer } from './viewer.js';

/** The client that performs a write, for creatorsName, modifiersName and change records. */
export interface Actor {
  /** '' for the server itself. */
  readonly dn: string;
  /** True if the client may set NO-USER-MODIFICATION attributes (import, restore). */
  readonly system?: boolean;
  /** Write access of the client. Absent: unrestricted. */
  readonly access?: Access | undefined;
}

export interface AttributeChange {
  readonly operation: 'add' | 'delete' | 'replace';
  readonly description: AttributeDescription;
}

/** A write request before any entry has been read. */
export interface WriteRequest {
  readonly op: 'add' | 'modify' | 'rename' | 'delete' | 'restore';
  readonly actor: Actor;
  /** Attribute changes of an add or a modify, in the order of the request. */
  readonly changes: readonly AttributeChange[];
  readonly rdn?: Rdn;
}

/** An entry that access to a write depends on: the target, or the parent of a new entry. */
export interface CheckedEntry {
  readonly node: Node;
  /** Packed master row with the values of the types in `Viewer.looksInto`. Empty for the root. */
  readonly row: Buffer;
}

/** A rename or a move once both places are known. */
export interface Move {
  readonly entry: CheckedEntry;
  readonly isRenamed: boolean;
  /** The new parent, if the entry moves. */
  readonly superior: CheckedEntry | undefined;
  /** Attribute values that the new RDN adds, and old RDN values that are removed. */
  readonly changes: readonly AttributeChange[];
}

/** Write access of a client. Each check returns the error of a refusal. `renew` loads all data that the checks need. */
export interface Access {
  /** Called at the start of each attempt. Loads the access rules in force for the following checks. */
  renew(): Maybe<void>;
  /** Version of the access rules behind the checks. The plan guards this version. Undefined: no rules apply. */
  readonly version: number | undefined;
  readonly viewer: Viewer;
  /** Checks the request alone, before any entry is read. */
  checkRequest(request: WriteRequest): LdapError | undefined;
  /** Checks the request when the target, or the parent of a new entry, has been read. The entry is visible. */
  checkTarget(request: WriteRequest, entry: CheckedEntry): LdapError | undefined;
  /** Checks an add with the complete new entry, without the attributes that the server sets. */
  checkNewEntry(request: WriteRequest, entry: CheckedEntry): LdapError | undefined;
  checkMove(move: Move): LdapError | undefined;
}

export interface EntryAttribute {
  /** Description as stored. */
  readonly description: string;
  readonly type: AttributeType;
  readonly values: readonly Buffer[];
}

/** A complete entry, for operations outside the search path. */
export interface Entry {
  readonly id: Buffer;
  readonly dn: string;
  readonly parentId: Buffer;
  readonly version: bigint;
  /** User attributes and stored operational attributes in stored order. Includes large values only on request. */
  readonly attributes: readonly EntryAttribute[];
  readonly row: Buffer;
}

/** Steps that are committed together with a write, or not at all. */
export interface AttachedSteps {
  /** Added to the plan of the change. They must not touch rows of entries. */
  readonly steps: readonly PlanStep[];
  /**
   * Called when a guard of the plan failed, of these steps or of others. Throws to end the write, with nothing done, if
   * the steps can no longer succeed. Otherwise the write is attempted again.
   */
  onGuardFailure(): Maybe<void>;
}

export interface WriteOptions {
  readonly manageDsaIT?: boolean;
  readonly attached?: AttachedSteps | undefined;
  /** Throws `LongWork` before any change if the entry is long enough to block the event loop. */
  readonly refuseLong?: boolean;
}

export interface CompareOptions extends WriteOptions {
  /** As in `SearchParams`. */
  readonly directGroupsOnly?: boolean;
}

export interface ModifyOptions extends WriteOptions {
  /** All attribute descriptions that `ChangesOf` changes. Other attributes with many values are then not read. */
  readonly touchedDescriptions?: readonly string[];
  /** True if the changes update references after changes of names. */
  readonly isSettlement?: boolean;
}

/** An entry as one attempt of a write has read it. The plan guards this row. */
export interface Target {
  readonly id: Buffer;
  readonly row: Buffer;
}

/**
 * Computes the modifications from the entry, and checks the right to make them. Called in each attempt, because the
 * name may belong to another entry by then. An error ends the write with nothing done.
 */
export type Modifier = (target: Target) => Maybe<readonly Modification[] | SplitChanges>;

/** Modifications of the client, and modifications that the server adds without an access check. */
export interface SplitChanges {
  readonly clientChanges: readonly Modification[];
  readonly serverChanges: readonly Modification[];
}

/** Directory-wide settings that `initDirectory` writes to table `meta` and every front end reads. */
export interface DirectorySettings {
  /** As the operator wrote them. */
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
  /** True if the index also serves any and final substrings. */
  readonly substring: boolean;
  /** True if the index also serves presence. False for attributes that every entry has. */
  readonly presence: boolean;
  readonly state: 'ready' | 'building';
  /** True if job `indexes` has made the index. */
  readonly made?: boolean;
}

export interface Breach {
  /** The violated invariant: `parent`, `treeRow`, `id`, `cycle`, `count`, `normAttributes`, `index`, `row`, … */
  readonly invariant: string;
  /** entryUUID or row key, as text. */
  readonly where: string;
  readonly message: string;
}

export interface DeletedEntry {
  readonly id: Buffer;
  /** entryUUID of the parent. */
  readonly parentId: Buffer;
  readonly dn: string;
  readonly time: number;
  readonly by: string;
}

export interface LoadSource {
  /** Line at which the record begins, for messages. */
  readonly line: number;
}

export interface LoadEntry extends LoadSource {
  readonly dn: string;
  readonly attributes: readonly PartialAttribute[];
  /** Reported for a rejected entry instead of the entry itself, whose attributes the loader can then release early. */
  readonly source?: LoadSource;
}

export interface LoadReject {
  readonly entry: LoadSource;
  readonly reason: string;
  /** Result code that an add would have had, if any. An interrupted import treats `entryAlreadyExists` as done. */
  readonly result?: ResultName | undefined;
}

export interface LoadProgress {
  readonly loaded: number;
  readonly rejected: number;
}
