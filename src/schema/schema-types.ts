/** Public types of the schema: attribute types, matching rules, syntaxes, object classes (RFC 4512 §4.1). */

export interface Syntax {
  readonly oid: string;
  readonly description: string;
  /** Whether values are bytes, not text, and are written with `::` in LDIF. */
  readonly binary: boolean;
  /** Whether values are BER, which `;binary` requires (RFC 4522 §3). */
  readonly ber: boolean;
  /** Returns the error message for an invalid value, without any byte of the value; undefined for a valid value. */
  check(value: Buffer): string | undefined;
  /** Converts a valid value to the form in which it is stored. Default: values are stored as given. */
  readonly proper?: (value: Buffer) => Buffer;
}

/**
 * A matching rule (RFC 4517 §4). Values and assertions are converted to a normal form in bytes with these properties:
 * - equality: values are equal if and only if their normal forms are the same bytes.
 * - ordering: the byte order of the normal forms is the order of the values; numbers and times are encoded accordingly.
 * - substrings: a normal form contains the initial, any and final parts as byte strings.
 * Rules that match in another way have `test`.
 */
export interface MatchingRule {
  readonly oid: string;
  readonly names: readonly string[];
  readonly kind: 'equality' | 'ordering' | 'substrings';
  /** OID of the assertion syntax. */
  readonly syntax: string;
  /** Returns the normal form of a stored value; undefined if the value does not fit the rule and so never matches. */
  normalize(value: Buffer): Buffer | undefined;
  /** Returns the normal form of an assertion; undefined if its syntax is wrong (Undefined, RFC 4511 §4.5.1.7). */
  normalizeAssertion(assertion: Buffer): Buffer | undefined;
  /** Returns the normal form of a part of a substrings assertion. Only for `substrings` rules. */
  normalizePart?(part: Buffer, where: 'initial' | 'any' | 'final'): Buffer | undefined;
  /**
   * Adds the spaces of RFC 4518 §2.6.1, which normal forms lack, to the normal form of a value (`whole`) or of a part.
   * Applied to both when a part begins or ends with a space. Only for `substrings` rules.
   */
  pad?(form: Buffer, where: 'whole' | 'initial' | 'any' | 'final'): Buffer;
  /** Compares the normal forms of a stored value and an assertion. Default: equality of the bytes. */
  readonly test?: (value: Buffer, assertion: Buffer) => boolean;
  /**
   * Whether the rule matches along a chain: a value matches if the entry that it names has a matching value, and so on.
   * Evaluating such a rule requires reading entries.
   */
  readonly inChain?: true;
}

export type Usage = 'userApplications' | 'directoryOperation' | 'distributedOperation' | 'dSAOperation';

export interface AttributeType {
  readonly oid: string;
  /** The first name is shown to users. */
  readonly names: readonly string[];
  /** `names[0]`, or the OID for a type without names. */
  readonly name: string;
  readonly description: string | undefined;
  readonly obsolete: boolean;
  readonly superior: AttributeType | undefined;
  /** This type and all types derived from this type. */
  readonly subtypes: readonly AttributeType[];
  readonly equality: MatchingRule | undefined;
  readonly ordering: MatchingRule | undefined;
  readonly substrings: MatchingRule | undefined;
  readonly syntax: Syntax;
  /** The bound in `1.3.6…{256}`, or undefined. */
  readonly maxLength: number | undefined;
  readonly singleValue: boolean;
  readonly collective: boolean;
  readonly noUserModification: boolean;
  readonly usage: Usage;
  /** Whether the usage is not userApplications. Operational attributes are returned only on request. */
  readonly operational: boolean;
  /** Whether values are secrets such as passwords, which are never returned, filtered on, indexed or logged. */
  readonly secret: boolean;
  /** The definition in the notation of RFC 4512 §4.1.2, for cn=Subschema. */
  readonly definition: string;
}

export interface ObjectClass {
  readonly oid: string;
  readonly names: readonly string[];
  readonly name: string;
  readonly description: string | undefined;
  readonly obsolete: boolean;
  readonly superiors: readonly ObjectClass[];
  readonly kind: 'ABSTRACT' | 'STRUCTURAL' | 'AUXILIARY';
  /** Required types, including inherited requirements. */
  readonly must: ReadonlySet<AttributeType>;
  readonly may: ReadonlySet<AttributeType>;
  readonly definition: string;
}

/** An attribute description (RFC 4512 §2.5). Equal descriptions are the same object. */
export interface AttributeDescription {
  readonly type: AttributeType;
  /** Sorted, in lower case, without `binary`, which affects the transfer encoding but not subtyping. */
  readonly options: readonly string[];
  /** Whether the description has the option `;binary`. */
  readonly binary: boolean;
  /** Canonical text: the type's name and the sorted options. */
  readonly text: string;
}

/** A type and value in an RDN. */
export interface Ava {
  readonly type: AttributeType;
  /** The bytes of the value after decoding escapes. */
  readonly value: Buffer;
  /** Normal form by the type's equality rule; by caseIgnoreMatch if the type has no equality rule. */
  readonly norm: Buffer;
}

export interface Rdn {
  /** In the given order. */
  readonly avas: readonly Ava[];
  /** The RDN by RFC 4514. Case of types and values and valid escapes are kept as the user wrote them. */
  readonly text: string;
  /**
   * `OID=normal form`. The attributes of a multi-valued RDN are sorted and joined with `+`. Bytes `\`, `+` and `,` of a
   * normal form are written as `\5c`, `\2b` and `\2c`, so that no value can imitate another RDN. Not truncated; the
   * partition truncates long ones.
   */
  readonly norm: Buffer;
}

/** A DN: RDNs from the entry up to the suffix, leftmost first. Empty for the root. */
export interface Dn {
  readonly rdns: readonly Rdn[];
  /** The texts of the RDNs joined with `,` (RFC 4514). */
  readonly text: string;
  /** `norm` of the RDNs joined with `,`. Equal DNs have the same bytes. */
  readonly norm: Buffer;
}
