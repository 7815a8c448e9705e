import type { Filter } from '../ldap/ldap-types.js';
import { descriptionMatches } from '../schema/describer.js';
import type { AttributeDescription, AttributeType, Dn } from '../schema/schema-types.js';
import type { RightSet } from './right.js';

/**
 * The `who` of a rule: a condition on the requester. All fields that are set have to match; a list matches if one of
 * its elements does. Without fields every requester matches, bound or not. Rules do not apply to the administrator.
 */
export interface Who {
  readonly anonymous?: true;
  /** Any client that is bound as an entry. */
  readonly users?: true;
  /** The entry is the requester's own. */
  readonly self?: true;
  readonly dn?: readonly Dn[];
  /** The requester is one of these entries or lies below one. */
  readonly subtree?: readonly Dn[];
  /** The requester is a member of one of these groups, directly, by a nested group or by the URL of a dynamic group. */
  readonly group?: readonly Dn[];
  /** One of these attributes of the entry contains the requester's DN. */
  readonly attribute?: readonly AttributeType[];
  readonly network?: readonly Network[];
  /** Minimum strength of the cipher in bits (local socket: 256). 0 allows secrets on unencrypted connections. */
  readonly strength?: number;
  /** Values of `MECHANISMS`. */
  readonly mechanism?: readonly string[];
  /** None of these matches. */
  readonly not?: readonly Who[];
}

/** An IP address with a prefix length. */
export interface Network {
  /** As written in the file. */
  readonly text: string;
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** The parts of an entry that a rule covers. */
export interface AttributeSet {
  readonly includesEntry: boolean;
  /** Creation and moves of entries right below the entry. */
  readonly includesChildren: boolean;
  /** `*`: all user attributes except secrets. */
  readonly includesUser: boolean;
  /** `+`: all operational attributes except secrets. */
  readonly includesOperational: boolean;
  /** Attributes of object classes (`@class`), except secrets. */
  readonly types: ReadonlySet<AttributeType>;
  /** Attributes by name, with their subtypes and options as in RFC 4512 §2.5.2. Secrets are covered only by name. */
  readonly descriptions: readonly AttributeDescription[];
}

/** The `to` of a rule: the entries and attributes that the rule covers. */
export interface Target {
  /** Location of the entries. Default: everywhere. */
  readonly place?: { readonly scope: 'base' | 'one' | 'subtree'; readonly bases: readonly Dn[] };
  /** At least one of the filters must match the entry. */
  readonly filters?: readonly TargetFilter[];
  readonly attributes: AttributeSet;
}

export interface TargetFilter {
  readonly text: string;
  readonly filter: Filter;
}

export interface AccessRule {
  readonly name: string;
  /** First line of the rule in the file. */
  readonly line: number;
  readonly who: Who;
  readonly to: Target;
  readonly allow: RightSet;
  readonly deny: RightSet;
}

/** Request limits of a client. Default: the server's settings. 0 means no limit, except for `inFlight`. */
export interface Limits {
  /** Entries that a search returns. */
  readonly sizeLimit?: number;
  /** In seconds. */
  readonly timeLimit?: number;
  /** Rows that a search examines. */
  readonly lookLimit?: number;
  /** Entries in a page. */
  readonly pageSize?: number;
  /** Concurrent requests on a connection. */
  readonly inFlight?: number;
}

export interface LimitRule {
  readonly name: string;
  readonly line: number;
  readonly who: Who;
  readonly limits: Limits;
}

/**
 * Assigns a password policy to accounts. All fields that are set have to match; a list matches if one of its elements
 * does. `byPrecedence` defines which of several matching rules applies.
 */
export interface PolicyRule {
  readonly name: string;
  readonly line: number;
  /** An entry of class pwdPolicy. */
  readonly policy: Dn;
  /** The account is at or below one of these entries. */
  readonly subtrees?: readonly Dn[];
  readonly filters?: readonly TargetFilter[];
  /** The account is a member of one of these groups, directly, nested or dynamic. */
  readonly groups?: readonly Dn[];
}

/** The content of a rules file. The order of the rules has no effect. */
export interface AccessRules {
  readonly rules: readonly AccessRule[];
  readonly limits: readonly LimitRule[];
  readonly passwordPolicies: readonly PolicyRule[];
}

/** The set of rules without `attributes`: all attributes except secrets, the entry itself, and its children. */
export const ALL_ATTRIBUTES: AttributeSet = {
  includesEntry: true,
  includesChildren: true,
  includesUser: true,
  includesOperational: true,
  types: new Set(),
  descriptions: [],
};

/** Whether only the server writes the secret attribute. No rule can grant rights on such an attribute. */
export function isServerSecret({ secret, noUserModification }: AttributeType): boolean {
  return secret && noUserModification;
}

/** Whether the set contains the attribute. A secret has to be named explicitly. */
export function covers(set: AttributeSet, description: AttributeDescription): boolean {
  const { type } = description;
  if (isServerSecret(type)) return false;
  if (set.descriptions.some((named) => (!type.secret || named.type.secret) && descriptionMatches(named, description)))
    return true;
  if (type.secret) return false;
  return (type.operational ? set.includesOperational : set.includesUser) || set.types.has(type);
}

/** Whether the set contains all attributes except secrets. */
export function coversAll(set: AttributeSet): boolean {
  return set.includesUser && set.includesOperational;
}
