import type { LdapError, ResultName } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Rdn } from '../../schema/schema-types.js';
import type { Maybe, PlanStep } from '../../store/contract.js';
import type { Node } from './tables.js';
import type { Viewer } from './viewer.js';

/** The client that performs a write. Its DN goes into creatorsName, modifiersName and change records. */
export interface Actor {
  /** DN; '' for the server itself. */
  readonly dn: string;
  /** Whether the client may set NO-USER-MODIFICATION attributes (import, restore). */
  readonly system?: boolean;
  /** Whether the client may set times, names of authors, and in a new entry entryUUID. */
  readonly isRelaxed?: boolean;
  /** Checks the client's rights to write. Absent: the client may do everything. */
  readonly access?: Access | undefined;
  /** Is filled by each attempt of a write. */
  readonly givenNumbers?: GivenNumbers;
}

/** The number given for `auto`, by `attributeKey`; undefined: the attribute keeps the numbers that it has. */
export type GivenNumbers = Map<string, Buffer | undefined>;

export interface AttributeChange {
  readonly operation: 'add' | 'delete' | 'replace';
  readonly description: AttributeDescription;
}

/** A write request, before any entry is read. */
export interface WriteRequest {
  readonly op: 'add' | 'modify' | 'rename' | 'delete' | 'restore';
  readonly actor: Actor;
  /** The attributes in an add or the modifications in a modify, in the order of the request. */
  readonly changes: readonly AttributeChange[];
  readonly rdn?: Rdn;
}

/** An entry whose rights decide about a write: the target; for a new entry its parent. */
export interface CheckedEntry {
  readonly node: Node;
  /** Packed master row with the values of the types in `Viewer.looksInto`. Empty for the root, which has no entry. */
  readonly row: Buffer;
}

/** A rename or a move whose old and new parent have been read. */
export interface Move {
  readonly entry: CheckedEntry;
  readonly isRenamed: boolean;
  /** The new parent; undefined if the entry keeps its parent. */
  readonly superior: CheckedEntry | undefined;
  /** The attribute values that the new RDN adds, and the old RDN values that are removed. */
  readonly changes: readonly AttributeChange[];
}

/** Checks the rights of a client to write. Each check returns the error to refuse with; undefined to allow. */
export interface Access {
  /** Loads the access rules in force and other data for the checks. Called at the start of each attempt. */
  renew(): Maybe<void>;
  /** Version of the access rules that the checks apply. The plan guards this version. Undefined: no rules apply. */
  readonly version: number | undefined;
  readonly viewer: Viewer;
  /** Checks the request alone, before any entry is read. */
  checkRequest(request: WriteRequest): LdapError | undefined;
  /** Checks the request against the target; for a new entry against its parent. The client may see this entry. */
  checkTarget(request: WriteRequest, entry: CheckedEntry): LdapError | undefined;
  /** Checks an add against the complete new entry, without the attributes that the server sets. */
  checkNewEntry(request: WriteRequest, entry: CheckedEntry): LdapError | undefined;
  checkMove(move: Move): LdapError | undefined;
}

export interface EntryAttribute {
  /** Attribute description as stored. */
  readonly description: string;
  readonly type: AttributeType;
  readonly values: readonly Buffer[];
}

/** A complete entry, for operations that are not performance-critical. */
export interface Entry {
  readonly id: Buffer;
  readonly dn: string;
  readonly parentId: Buffer;
  readonly version: bigint;
  /** User attributes and stored operational attributes, in stored order. Large values are included only on request. */
  readonly attributes: readonly EntryAttribute[];
  readonly row: Buffer;
}

/** Steps that are committed together with a write, or not at all. */
export interface AttachedSteps {
  /** Steps that are added to the plan of the change. They must not touch rows of entries. */
  readonly steps: readonly PlanStep[];
  /**
   * Called when a guard of the plan has failed, of these steps or of others. If these steps can no longer succeed, it
   * throws an error, which ends the write with nothing done. Otherwise the write is attempted again.
   */
  onGuardFailure(): Maybe<void>;
}

/** An entry as a write leaves it, for `Partition.findWritten`. */
export interface WrittenEntry {
  readonly id: Buffer;
  /** Packed master row. It points to stored large values, and has new ones in full. */
  readonly row: Buffer;
  readonly dn: Buffer;
  readonly normRdn: Buffer;
  readonly parent: Node;
  /** The entry before the write; undefined for a new entry. */
  readonly former: { readonly row: Buffer; readonly dn: Buffer } | undefined;
}

/** Looks at the entry in each attempt of a write. An error ends the write with nothing done. */
export interface WriteObserver {
  /**
   * Called before the change is made; not for a new entry. If it reads the entry, it reads the state that the write
   * replaces: otherwise the attempt fails, and is repeated.
   */
  onFound(): Maybe<void>;
  /** Called when all checks have allowed the change, just before it is stored. Undefined: a deletion. */
  onAllowed(written: WrittenEntry | undefined): Maybe<void>;
}

export interface WriteOptions {
  readonly manageDsaIT?: boolean;
  readonly observer?: WriteObserver | undefined;
  readonly attached?: AttachedSteps | undefined;
  /** Whether a write of a long entry throws `LongWork` before any change, so that it does not block the event loop. */
  readonly refuseLong?: boolean;
  /** Of a delete: whether the entries below are deleted, too. */
  readonly tree?: boolean;
  /**
   * Of an add: checks the complete new entry after the actor's rights, and returns attributes that the server adds
   * unless the entry has them, and secrets as they are to be stored. Called in each attempt, not when the name is
   * taken. An error ends the add with nothing done.
   */
  readonly completeNew?: ((entry: Target) => Maybe<readonly PartialAttribute[]>) | undefined;
}

export interface CompareOptions extends WriteOptions {
  /** See `SearchParams`. */
  readonly directGroupsOnly?: boolean;
}

export interface ModifyOptions extends WriteOptions {
  /** All attribute descriptions that the modifications change. Other wide attributes are then not read. */
  readonly touchedDescriptions?: readonly string[];
  /** Whether the modifications update references after changes of names. */
  readonly isSettlement?: boolean;
  /** Whether values that are there may be added, and absent ones be deleted. */
  readonly isPermissive?: boolean;
}

/** The entry as an attempt of a write has read it. The plan guards the version of this row. */
export interface Target {
  readonly id: Buffer;
  readonly row: Buffer;
}

/**
 * Computes the modifications from the entry, and checks the right to make them. Called again in every attempt, because
 * another entry may have the name by then. An error ends the write with nothing done.
 */
export type Modifier = (target: Target) => Maybe<readonly Modification[] | SplitChanges>;

/** Modifications of the client, and modifications that the server adds without an access check. */
export interface SplitChanges {
  readonly clientChanges: readonly Modification[];
  readonly serverChanges: readonly Modification[];
}

/** Settings that all front ends read from the shared row of table `meta`. `initDirectory` writes them. */
export interface DirectorySettings {
  /** DNs as the operator wrote them. */
  readonly suffixes: readonly string[];
  readonly adminDn: string;
  /** The administrator's password, hashed. */
  readonly adminPassword: Buffer;
  /** Random 32 bytes, the key that signs page cookies. */
  readonly cookieKey: Buffer;
}

export interface IndexInfo {
  readonly attribute: string;
  readonly oid: string;
  readonly substring: boolean;
  /** Whether the index has presence rows. False for attributes that every entry has. */
  readonly presence: boolean;
  /** `lost`: the table was found missing, and the index is out of use until it is built anew. */
  readonly state: 'ready' | 'building' | 'lost';
  /** True if job `indexes` has made the index. */
  readonly made?: boolean;
}

export interface Breach {
  /** The violated invariant: `parent`, `treeRow`, `id`, `cycle`, `count`, `normAttributes`, `index`, `row`, … */
  readonly invariant: string;
  /** The entryUUID of the entry or the key of the row. */
  readonly where: string;
  readonly message: string;
}

export interface DeletedEntry {
  readonly id: Buffer;
  readonly parentId: Buffer;
  readonly dn: string;
  readonly time: number;
  readonly by: string;
}

export interface LoadSource {
  /** Line of the source file where the record begins, for messages. */
  readonly line: number;
}

export interface LoadEntry extends LoadSource {
  readonly dn: string;
  readonly attributes: readonly PartialAttribute[];
  /** Passed to reports about the entry. The loader can release the attributes of the entry early. */
  readonly source?: LoadSource;
}

export interface LoadReject {
  readonly entry: LoadSource;
  readonly reason: string;
  /** The result code with which an add would fail. An interrupted import treats `entryAlreadyExists` as done. */
  readonly result?: ResultName | undefined;
}

export interface LoadProgress {
  readonly loaded: number;
  readonly rejected: number;
}
