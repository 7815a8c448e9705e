import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { withoutUid } from './group-rows.js';

/** A change of an entry's name that values which refer to the entry have not followed yet. */
export interface NameChange {
  /** entryUUID, hexadecimal. */
  readonly id: string;
  /** The DN before, as text; of a restored entry its DN now. */
  readonly from: string;
  /** The DN after. Absent: the entry was deleted, or `restored`. */
  readonly to?: string;
  /** Names below the entry change, too. */
  readonly below?: true;
  /** Milliseconds since 1970: tells two changes of one entry apart. */
  readonly time?: number;
  /** The entry came back. */
  readonly restored?: true;
}

/** How values and rows differ from the names that entries have now. */
interface Parsed {
  readonly change: NameChange;
  readonly from: Dn;
  readonly to: Dn | undefined;
  /** `Dn.norm` as Latin-1. */
  readonly fromNorm: string;
  readonly toNorm: string | undefined;
}

/** No normal form of an RDN begins with `#`: behind `,#` there is the UID of a value of uniqueMember. */
const UID = ',#';

/**
 * Changes of names in the order in which they were made. Rows may hold a DN as it was at any time since the first of
 * them, provided that nobody took a name that is given up here. `present` gives the DN of now, `storedForms` all forms
 * in which rows may hold a DN of now. Forms are normal forms as Latin-1.
 */
export class NameChanges {
  readonly records: readonly NameChange[];
  readonly #schema: Schema;
  readonly #changes: readonly Parsed[];
  readonly #isEmpty: boolean;
  /** Names that are given up; whether others below them are, too. */
  readonly #givenUp = new Map<string, boolean>();
  /** By the text of a DN: what is given up right below it. */
  readonly #right = new Map<string, RightBelow>();
  /** By the text of a DN: what it is now, where it lies at or below the one that changed. */
  readonly #above = new Map<string, Buffer | null>();

  constructor(schema: Schema, records: readonly NameChange[]) {
    this.#schema = schema;
    this.records = records;
    this.#changes = records.map((change) => {
      const from = schema.parseDn(change.from);
      const to = change.to === undefined ? undefined : schema.parseDn(change.to);
      return { change, from, to, fromNorm: textOf(from), toNorm: to && textOf(to) };
    });
    this.#isEmpty = records.every(({ restored }) => restored);
    for (const { change, fromNorm } of this.#changes)
      if (!change.restored) this.#givenUp.set(fromNorm, change.below === true || this.#givenUp.get(fromNorm) === true);
  }

  /** Whether all values are called as their entries are. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Whether the name was given up. */
  covers(form: string): boolean {
    if (this.#givenUp.size === 0) return false;
    const name = bare(form);
    if (this.#givenUp.has(name)) return true;
    for (let comma = name.indexOf(','); comma >= 0; comma = name.indexOf(',', comma + 1))
      if (this.#givenUp.get(name.slice(comma + 1))) return true;
    return false;
  }

  /**
   * False where the text of a DN alone tells that the name was not given up: most values of a large group are told
   * apart so, without being normalized.
   */
  mayCover(dn: Buffer): boolean {
    const comma = endOfPlainRdn(dn);
    if (comma < 0) return true;
    const above = dn.toString('latin1', comma + 1);
    let known = this.#right.get(above);
    if (!known) {
      known = this.#rightBelow(dn.subarray(comma + 1));
      if (this.#right.size >= MOST_TEXTS) this.#right.clear();
      this.#right.set(above, known);
    }
    if (known.all) return true;
    if (known.rdns.size === 0) return false;
    const rdn = dn.toString('latin1', 0, comma).toLowerCase();
    return known.rdns.has(rdn) || !known.types.has(rdn.slice(0, rdn.indexOf('=')));
  }

  /** What tells by `mayCover` whether a DN may be one of these; those that are too long for a DN are none. */
  among(dns: readonly Buffer[]): NameChanges {
    const parsable = dns.filter((dn) => isParsable(this.#schema, dn));
    return new NameChanges(
      this.#schema,
      parsable.map((dn) => ({ id: '', from: dn.toString() })),
    );
  }

  #rightBelow(dn: Buffer): RightBelow {
    const found = { all: false, rdns: new Set<string>(), types: new Set<string>() };
    if (!isParsable(this.#schema, dn)) return { ...found, all: true };
    const name = textOf(this.#schema.parseDnBytes(dn));
    if (this.covers(`,${name}`)) return { ...found, all: true };
    for (const { change, from, fromNorm } of this.#changes) {
      if (change.restored || from.rdns.length === 0) continue;
      if (fromNorm.slice(from.rdns[0]!.norm.length + 1) !== name) continue;
      const rdn = Buffer.from(from.rdns[0]!.text);
      if (endOfPlainRdn(Buffer.concat([rdn, COMMA])) < 0) return { ...found, all: true };
      const text = rdn.toString('latin1').toLowerCase();
      found.rdns.add(text);
      found.types.add(text.slice(0, text.indexOf('=')));
    }
    return found;
  }

  /** The form itself, and older ones of the same entry; none where the name was given up. */
  storedForms(form: string): readonly string[] {
    if (this.isEmpty) return [form];
    return this.covers(form) ? [] : this.#olderForms(form, this.#changes.length);
  }

  /** All forms in which rows may hold the name that change number `n` gave up. */
  formsBefore(n: number): readonly string[] {
    return this.#olderForms(this.#changes[n]!.fromNorm, n);
  }

  #olderForms(form: string, before: number): string[] {
    const name = bare(form);
    const rest = form.slice(name.length);
    const names = [name];
    for (let i = before - 1; i >= 0; i--) {
      const { change, fromNorm, toNorm } = this.#changes[i]!;
      if (toNorm === undefined) continue;
      for (const known of [...names])
        if (isAt(known, toNorm, change.below)) names.push(known.slice(0, known.length - toNorm.length) + fromNorm);
    }
    return names.map((known) => known + rest);
  }

  /**
   * As `present`, where one subtree alone was renamed or moved and the text tells that the DN lies below it: only what
   * is above its first RDN changes. Undefined where that does not tell. Values of a large group cost little so.
   */
  presentBelow(dn: Buffer): Buffer | undefined {
    const [only, ...more] = this.#changes;
    const comma = only?.to && more.length === 0 && only.change.below ? endOfPlainRdn(dn) : -1;
    if (comma < 0) return undefined;
    const above = dn.toString('latin1', comma + 1);
    let known = this.#above.get(above);
    if (known === undefined) {
      known = this.#presentAbove(dn.subarray(comma + 1), only!);
      if (this.#above.size >= MOST_TEXTS) this.#above.clear();
      this.#above.set(above, known);
    }
    return known ? Buffer.concat([dn.subarray(0, comma), known]) : undefined;
  }

  /** With a comma before it; null where the DN does not lie at or below the one that changed. */
  #presentAbove(dn: Buffer, { fromNorm, from, to }: Parsed): Buffer | null {
    if (!isParsable(this.#schema, dn)) return null;
    const parsed = this.#schema.parseDnBytes(dn);
    return isAt(textOf(parsed), fromNorm, true) ? Buffer.from(`,${moved(parsed, from, to!).text}`) : null;
  }

  /** The value as it is to be now; where its entry is gone, the change that says so. */
  present(type: AttributeType, value: Buffer): Buffer | NameChange {
    const end = withoutUid(type, value).length;
    let dn = this.#schema.parseDnBytes(value.subarray(0, end));
    let isChanged = false;
    let gone: NameChange | undefined;
    for (const { change, from, to, fromNorm } of this.#changes) {
      if (gone) {
        if (!change.restored || change.id !== gone.id) continue;
        gone = undefined;
        dn = from;
      } else if (change.restored || !isAt(textOf(dn), fromNorm, change.below)) continue;
      else if (to) dn = moved(dn, from, to);
      else gone = change;
      isChanged = true;
    }
    if (gone) return gone;
    return isChanged ? Buffer.concat([Buffer.from(dn.text), value.subarray(end)]) : value;
  }
}

function isParsable(schema: Schema, dn: Buffer): boolean {
  try {
    schema.parseDnBytes(dn);
    return true;
  } catch (error) {
    if (error instanceof LdapError) return false;
    throw error;
  }
}

/** A DN at or below `from`, as it is below `to`. It may be longer than DNs that are parsed. */
function moved(dn: Dn, from: Dn, to: Dn): Dn {
  const own = dn.rdns.slice(0, dn.rdns.length - from.rdns.length);
  if (own.length === 0) return to;
  const head = dn.norm.subarray(0, dn.norm.length - from.norm.length);
  return {
    rdns: [...own, ...to.rdns],
    text: [...own.map(({ text }) => text), to.text].join(','),
    norm: Buffer.concat([head, to.norm]),
  };
}

/** What is given up right below a DN, by texts of RDNs in lower case. */
interface RightBelow {
  /** The text does not tell. */
  readonly all: boolean;
  readonly rdns: ReadonlySet<string>;
  /** Attribute types of these, as they are written. */
  readonly types: ReadonlySet<string>;
}

/** Texts that are remembered. */
const MOST_TEXTS = 10_000;
const COMMA = Buffer.from(',');
const PLAIN = /^[a-z][a-z0-9-]*=(?=[^,]*[a-z])[a-z0-9._@]+(?: [a-z0-9._@]+)*$/i;

/**
 * Where the comma behind the first RDN stands, if its text alone tells it from others but for the case of letters and
 * another name of its type; else -1.
 */
function endOfPlainRdn(dn: Buffer): number {
  const comma = dn.indexOf(0x2c);
  return comma > 0 && PLAIN.test(dn.toString('latin1', 0, comma)) ? comma : -1;
}

function textOf({ norm }: Dn): string {
  return norm.toString('latin1');
}

function bare(form: string): string {
  const uid = form.indexOf(UID);
  return uid < 0 ? form : form.slice(0, uid);
}

/** In a normal form `,` stands between RDNs only. */
function isAt(name: string, top: string, below: boolean | undefined): boolean {
  return name === top || (below === true && name.endsWith(top) && name[name.length - top.length - 1] === ',');
}
