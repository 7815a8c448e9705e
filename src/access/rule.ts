import type { Filter } from '../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Dn } from '../schema/schema-types.js';
import type { RightSet } from './right.js';

/**
 * Who asks. All keys that are there hold; a list holds where one of it does. Without a key it is everybody, bound or
 * not. The administrator is above rules.
 */
export interface Who {
  readonly anonymous?: true;
  /** Whoever has bound as an entry. */
  readonly users?: true;
  /** The entry is the one that asks. */
  readonly self?: true;
  readonly dn?: readonly Dn[];
  /** The one who asks is one of these entries or lies below one. */
  readonly subtree?: readonly Dn[];
  /** The one who asks is a member, also of a group in the group, also by a group's URL. */
  readonly group?: readonly Dn[];
  /** The entry has the DN of the one who asks among the values. */
  readonly attribute?: readonly AttributeType[];
  readonly network?: readonly Network[];
  /** Bits of the cipher, at least; a socket of this machine has 256. 0: secrets go out in the clear, too. */
  readonly strength?: number;
  /** `simple`, `application`. */
  readonly mechanism?: readonly string[];
  readonly not?: Who;
}

/** An address, or those that share its first bits. */
export interface Network {
  /** As given. */
  readonly text: string;
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** Which attributes of an entry a rule is about, and whether it is about the entry and what comes below it. */
export interface AttributeSet {
  /** The entry itself. */
  readonly entry: boolean;
  /** What is made or moved right below the entry. */
  readonly children: boolean;
  /** `*`: all user attributes but secrets. */
  readonly user: boolean;
  /** `+`: all operational attributes but secrets. */
  readonly operational: boolean;
  /** Of object classes (`@class`), but for secrets. */
  readonly types: ReadonlySet<AttributeType>;
  /** By name: with subtypes and options as RFC 4512 §2.5.2 has it. Secrets are named so or not at all. */
  readonly descriptions: readonly AttributeDescription[];
}

/** What of the directory a rule is about. */
export interface Target {
  /** Where: everywhere without it. */
  readonly place?: { readonly scope: 'base' | 'one' | 'subtree'; readonly bases: readonly Dn[] };
  /** The entry matches one of them. */
  readonly filters?: readonly TargetFilter[];
  readonly attributes: AttributeSet;
}

export interface TargetFilter {
  readonly text: string;
  readonly filter: Filter;
}

export interface AccessRule {
  readonly name: string;
  /** Of the file, where it begins. */
  readonly line: number;
  readonly who: Who;
  readonly to: Target;
  readonly allow: RightSet;
  readonly deny: RightSet;
}

/** What somebody may ask for at most; absent: as the server's settings say. 0, but of `inFlight`: without limit. */
export interface Limits {
  /** Entries a search gives. */
  readonly sizeLimit?: number;
  /** Seconds. */
  readonly timeLimit?: number;
  /** Rows looked at. */
  readonly lookLimit?: number;
  /** Entries of a page. */
  readonly pageSize?: number;
  /** Requests in flight on a connection. */
  readonly inFlight?: number;
}

export interface LimitRule {
  readonly name: string;
  readonly line: number;
  readonly who: Who;
  readonly limits: Limits;
}

/**
 * Which accounts have a password policy. All keys that are there hold; a list holds where one of it does. Of several
 * that fit one holds: see `inOrder`.
 */
export interface PolicyRule {
  readonly name: string;
  readonly line: number;
  /** An entry of class pwdPolicy. */
  readonly policy: Dn;
  /** At or below one of these entries. */
  readonly subtrees?: readonly Dn[];
  readonly filters?: readonly TargetFilter[];
  /** Members of one of these groups, nested and dynamic ones. */
  readonly groups?: readonly Dn[];
}

/** What a file of rules says. Their order means nothing. */
export interface AccessRules {
  readonly rules: readonly AccessRule[];
  readonly limits: readonly LimitRule[];
  readonly passwordPolicies: readonly PolicyRule[];
}
