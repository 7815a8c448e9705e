/** What the schema room tells the others: attribute types, matching rules, syntaxes, object classes (RFC 4512 §4.1). */

export interface Syntax {
  readonly oid: string;
  readonly description: string;
  /** Not shown to people as text: returned with `::` in LDIF, checked as bytes. */
  readonly binary: boolean;
  /** Values are BER, which `;binary` asks for (RFC 4522 §3). */
  readonly ber: boolean;
  /** What is wrong with the value, for the diagnostic; undefined when it is valid. Never repeats the value's bytes. */
  check(value: Buffer): string | undefined;
  /**
   * The value as it is stored and shown, where that may be another than the one given; a value that is not valid stays
   * as it is.
   */
  readonly proper?: (value: Buffer) => Buffer;
}

/**
 * A matching rule (RFC 4517 §4). Values and assertions are brought to a normal form of bytes such that
 *   equality:   equal ⇔ the forms are the same bytes
 *   ordering:   less  ⇔ the form is less by byte order (numbers and times are encoded for that)
 *   substrings: initial/any/final parts are found in the form as byte strings
 * A rule whose match is anything else has `test`.
 */
export interface MatchingRule {
  readonly oid: string;
  readonly names: readonly string[];
  readonly kind: 'equality' | 'ordering' | 'substrings';
  /** Syntax of the assertion value. */
  readonly syntax: string;
  /** Normal form of a stored value; undefined when the value does not fit the rule (it then matches nothing). */
  normalize(value: Buffer): Buffer | undefined;
  /**
   * Normal form of an assertion; undefined when it is not of the rule's assertion syntax (the term is Undefined, RFC
   * 4511 §4.5.1.7).
   */
  normalizeAssertion(assertion: Buffer): Buffer | undefined;
  /** Normal form of a part of a substrings assertion. Only on `substrings` rules. */
  normalizePart?(part: Buffer, where: 'initial' | 'any' | 'final'): Buffer | undefined;
  /**
   * On `substrings` rules whose forms lack spaces that count in parts: a normal form (`whole`), or that of a part, with
   * these spaces (RFC 4518 §2.6.1). A part that begins or ends with a space is found in forms by this of both.
   */
  pad?(form: Buffer, where: 'whole' | 'initial' | 'any' | 'final'): Buffer;
  /** For rules that are not equality of forms: stored form against assertion form. */
  readonly test?: (value: Buffer, assertion: Buffer) => boolean;
  /** It also matches values that name an entry whose own values match: only a directory can tell. */
  readonly inChain?: true;
}

export type Usage = 'userApplications' | 'directoryOperation' | 'distributedOperation' | 'dSAOperation';

export interface AttributeType {
  readonly oid: string;
  /** The first is the one shown. */
  readonly names: readonly string[];
  /** `names[0]`, or the OID when it has none. */
  readonly name: string;
  readonly description: string | undefined;
  readonly obsolete: boolean;
  readonly superior: AttributeType | undefined;
  /** This type and every type below it. */
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
  /** Usage other than userApplications: returned only when asked for by name or `+`. */
  readonly operational: boolean;
  /** Passwords and the like (userPassword, …): never returned, filtered on, indexed or logged. */
  readonly secret: boolean;
  /** The definition as RFC 4512 §4.1.2 text, for cn=Subschema. */
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
  /** Own and inherited, by type. */
  readonly must: ReadonlySet<AttributeType>;
  readonly may: ReadonlySet<AttributeType>;
  readonly definition: string;
}

/**
 * An attribute description (RFC 4512 §2.5): type and options. One object per distinct description; options are lower
 * case and sorted.
 */
export interface AttributeDescription {
  readonly type: AttributeType;
  /** Without `binary`, which changes transfer and not the description's subtype relations. */
  readonly options: readonly string[];
  /** `;binary` was given. */
  readonly binary: boolean;
  /** Canonical text: the type's shown name and the sorted options. */
  readonly text: string;
}

/** One attribute type and value of an RDN. */
export interface Ava {
  readonly type: AttributeType;
  /** The value's bytes as given, unescaped. */
  readonly value: Buffer;
  /** Its normal form by the type's equality rule (caseIgnoreMatch where it has none). */
  readonly norm: Buffer;
}

export interface Rdn {
  /** In the order given. */
  readonly avas: readonly Ava[];
  /** RFC 4514; the case of types and values, and escapes that are right, as the user gave them. */
  readonly text: string;
  /**
   * `OID=normal form`, parts of a multi-valued RDN sorted and joined with `+`; bytes `\`, `+`, `,` of a form are
   * written `\5c`, `\2b`, `\2c`, so that no value can pretend to be another RDN. Not cut: the partition cuts what is
   * long.
   */
  readonly norm: Buffer;
}

/** A DN: RDNs from the entry up to the suffix (leftmost first, as in its text). Empty for the root. */
export interface Dn {
  readonly rdns: readonly Rdn[];
  /** The texts of the RDNs with `,` between: RFC 4514. */
  readonly text: string;
  /** `norm` of the RDNs joined with `,`: equal DNs have the same bytes. */
  readonly norm: Buffer;
}
