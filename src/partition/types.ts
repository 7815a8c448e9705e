import type { ResultName } from '../ldap/error.js';
import type { Change, DerefAliases, Filter, PartialAttribute, Scope } from '../ldap/types.js';
import type { AttributeType, Dn } from '../schema/types.js';
import type { Maybe } from '../store/contract.js';
import type { Selects } from './wide-read.js';

/** Who does it, for creatorsName, modifiersName and change records. */
export interface Actor {
  /** DN as text; '' for the server itself. */
  readonly dn: string;
  /** May write what NO-USER-MODIFICATION forbids (import, restore). */
  readonly system?: boolean;
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

/** What a search may look at. A term over a hidden type is Undefined, so that filters reveal nothing that a read would not. */
export interface View {
  hides(type: AttributeType): boolean;
}

export interface SearchParams {
  readonly base: Dn;
  readonly scope: Scope;
  readonly deref: DerefAliases;
  readonly filter: Filter;
  readonly view: View;
  /** What the sink looks at of an entry: the row that it gets may lack other attributes. Absent: all. */
  readonly selects?: Selects | undefined;
  readonly manageDsaIT: boolean;
  /** Throws `LongWork` where the filter looks into the values of a long entry, unless something was found before. */
  readonly leaveLong?: boolean;
  /**
   * Asked where an index names many candidates, with the number of such searches that are under way in this thread: where it
   * has time `LongWork` is thrown, before anything was found.
   */
  readonly leaveMany?: { hasTime(here: number): boolean } | undefined;
  /** Entries at most, 0: no limit. */
  readonly sizeLimit: number;
  /** `Date.now()` after which it ends with timeLimitExceeded; Infinity: none. */
  readonly deadline: number;
  /** Rows looked at, at most; Infinity: none. */
  readonly lookLimit: number;
  /** Ends the search with `canceled` at the next batch. */
  readonly signal?: { readonly aborted: boolean } | undefined;
  /** Where an earlier page ended; from `SearchOutcome.resume`. */
  readonly resume?: Buffer | undefined;
  /** Ends the page after so many entries. */
  readonly pageSize?: number | undefined;
}

/** One entry found. All buffers are the caller's to read only until `entry` returns or its promise resolves. */
export interface Hit {
  readonly id: Buffer;
  /** Packed master row. */
  readonly row: Buffer;
  /** DN, UTF-8. */
  readonly dn: Buffer;
  hasSubordinates(): Maybe<boolean>;
  numSubordinates(): Maybe<number>;
}

export interface SearchSink {
  /** A promise pauses the search until it resolves: back-pressure. */
  entry(hit: Hit): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
}

export interface SearchOutcome {
  /** Entries handed to the sink. */
  readonly entries: number;
  /** Rows looked at. */
  readonly looked: number;
  /** Set when the page is full and there may be more. */
  readonly resume: Buffer | undefined;
}

export interface WriteOptions {
  readonly manageDsaIT?: boolean;
  /** Throws `LongWork`, with nothing done, where the entry is so long that the event loop would stand still. */
  readonly leaveLong?: boolean;
}

/** What the server calls. Every method throws `LdapError`; store errors are already translated. */
export interface Directory {
  search(params: SearchParams, sink: SearchSink): Maybe<SearchOutcome>;
  /** The entry at `dn`, or `noSuchObject` with matchedDN; a referral at or above it throws `referral` unless manageDsaIT. */
  read(dn: Dn, options?: WriteOptions & { large?: boolean }): Promise<Entry>;
  readById(id: Buffer): Promise<Entry | undefined>;
  compare(dn: Dn, attribute: string, value: Buffer, view: View, options?: WriteOptions): Promise<boolean>;
  /** Resolves with the entryUUID. */
  add(dn: Dn, attributes: readonly PartialAttribute[], actor: Actor, options?: WriteOptions): Promise<Buffer>;
  modify(dn: Dn, changes: readonly Change[], actor: Actor, options?: WriteOptions): Promise<void>;
  rename(
    dn: Dn,
    to: { readonly newRdn: string; readonly deleteOldRdn: boolean; readonly newSuperior: string | undefined },
    actor: Actor,
    options?: WriteOptions,
  ): Promise<void>;
  delete(dn: Dn, actor: Actor, options?: WriteOptions): Promise<void>;
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
  readonly dn: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly by: string;
}

export interface Explanation {
  /** `base`, `index`, `scope` or `table`. */
  readonly plan: string;
  /** One line a considered term: its text, its (capped) count, and whether it was taken. */
  readonly terms: readonly {
    readonly term: string;
    readonly count: number | undefined;
    readonly taken: boolean;
    readonly why: string;
  }[];
  /** Store filter as text where rows are scanned. */
  readonly storeFilter: string | undefined;
  readonly candidates: number;
  readonly looked: number;
  readonly entries: number;
  /** Such as "rowan index add employeeNumber"; undefined when an index was used. */
  readonly advice: string | undefined;
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
  /** Result code that an add would have ended with, where there is one: an interrupted import takes `entryAlreadyExists` for done. */
  readonly result?: ResultName | undefined;
}

export interface LoadProgress {
  readonly loaded: number;
  readonly rejected: number;
}
