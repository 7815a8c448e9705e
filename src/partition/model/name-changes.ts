import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { withoutUid } from './group-rows.js';

/** A change of an entry's name that stored references to the entry do not reflect yet. */
export interface NameChange {
  /** entryUUID, hexadecimal. */
  readonly id: string;
  /** The old DN, as text. For a restored entry its current DN. */
  readonly from: string;
  /** The new DN. Absent for a deleted or a restored entry. */
  readonly to?: string;
  /** True if the names of the entries below change as well. */
  readonly below?: true;
  /** Milliseconds since 1970. Distinguishes several changes of one entry. */
  readonly time?: number;
  readonly restored?: true;
}

/** A change with its DNs parsed. */
interface Parsed {
  readonly change: NameChange;
  readonly from: Dn;
  readonly to: Dn | undefined;
  readonly fromNorm: string;
  readonly toNorm: string | undefined;
}

/** Separates the normal form of a DN from the UID of a uniqueMember value. No normal form of an RDN begins with `#`. */
const UID = ',#';

/**
 * Changes of names in the order in which they were made. Rows may hold a DN as it was at any time since the first
 * change, provided that no other entry has taken a name given up here. `present` returns the current DN, `storedForms`
 * all forms in which rows may hold a current DN. Forms are normal forms as Latin-1.
 */
export class NameChanges {
  readonly records: readonly NameChange[];
  readonly #schema: Schema;
  readonly #changes: readonly Parsed[];
  readonly #isEmpty: boolean;
  /** Names that the changes give up. The value is true if the names below are given up too. */
  readonly #givenUp = new Map<string, boolean>();
  /** Names given up directly below a DN, by the text of the DN. A cache. */
  readonly #belowCache = new Map<string, NamesBelow>();
  /** Current text of a DN that lies at or below the changed one, else null, by the old text. A cache. */
  readonly #presentCache = new Map<string, Buffer | null>();

  constructor(schema: Schema, records: readonly NameChange[]) {
    this.#schema = schema;
    this.records = records;
    this.#changes = records.map((change) => {
      const from = schema.parseDn(change.from);
      const to = change.to === undefined ? undefined : schema.parseDn(change.to);
      return { change, from, to, fromNorm: normTextOf(from), toNorm: to && normTextOf(to) };
    });
    this.#isEmpty = records.every(({ restored }) => restored);
    for (const { change, fromNorm } of this.#changes)
      if (!change.restored) this.#givenUp.set(fromNorm, change.below === true || this.#givenUp.get(fromNorm) === true);
  }

  /** True if all stored references reflect the current names. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** True if the name was given up. */
  includesForm(form: string): boolean {
    if (this.#givenUp.size === 0) return false;
    const name = withoutUidForm(form);
    if (this.#givenUp.has(name)) return true;
    for (let comma = name.indexOf(','); comma >= 0; comma = name.indexOf(',', comma + 1))
      if (this.#givenUp.get(name.slice(comma + 1))) return true;
    return false;
  }

  /** Returns false if the text of a DN alone shows that the name was not given up. Saves most normalizations. */
  mayInclude(dn: Buffer): boolean {
    const comma = endOfPlainRdn(dn);
    if (comma < 0) return true;
    const above = dn.toString('latin1', comma + 1);
    let known = this.#belowCache.get(above);
    if (!known) {
      known = this.#namesBelow(dn.subarray(comma + 1));
      if (this.#belowCache.size >= MAX_CACHED) this.#belowCache.clear();
      this.#belowCache.set(above, known);
    }
    if (known.all) return true;
    if (known.rdns.size === 0) return false;
    const rdn = dn.toString('latin1', 0, comma).toLowerCase();
    return known.rdns.has(rdn) || !known.types.has(rdn.slice(0, rdn.indexOf('=')));
  }

  /** Returns an object whose `mayInclude` tests for names in `dns`. Texts that are too long for a DN are left out. */
  forNames(dns: readonly Buffer[]): NameChanges {
    const parsable = dns.filter((dn) => isParsable(this.#schema, dn));
    return new NameChanges(
      this.#schema,
      parsable.map((dn) => ({ id: '', from: dn.toString() })),
    );
  }

  #namesBelow(dn: Buffer): NamesBelow {
    const found = { all: false, rdns: new Set<string>(), types: new Set<string>() };
    if (!isParsable(this.#schema, dn)) return { ...found, all: true };
    const name = normTextOf(this.#schema.parseDnBytes(dn));
    if (this.includesForm(`,${name}`)) return { ...found, all: true };
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

  /** Returns the form and its older forms; none if the name was given up. */
  storedForms(form: string): readonly string[] {
    if (this.isEmpty) return [form];
    return this.includesForm(form) ? [] : this.#olderForms(form, this.#changes.length);
  }

  /** Returns all forms in which rows may hold the name that change number `n` gave up. */
  formsBefore(n: number): readonly string[] {
    return this.#olderForms(this.#changes[n]!.fromNorm, n);
  }

  #olderForms(form: string, before: number): string[] {
    const name = withoutUidForm(form);
    const rest = form.slice(name.length);
    const names = [name];
    for (let i = before - 1; i >= 0; i--) {
      const { change, fromNorm, toNorm } = this.#changes[i]!;
      if (toNorm === undefined) continue;
      for (const known of [...names])
        if (isAtOrBelow(known, toNorm, change.below))
          names.push(known.slice(0, known.length - toNorm.length) + fromNorm);
    }
    return names.map((known) => known + rest);
  }

  /**
   * Fast path of `present` for a single rename or move of a subtree: if the text shows that the DN lies below, only the
   * part above the first RDN changes. Undefined if the text is not conclusive. Meant for large groups.
   */
  presentBelow(dn: Buffer): Buffer | undefined {
    const [only, ...more] = this.#changes;
    const comma = only?.to && more.length === 0 && only.change.below ? endOfPlainRdn(dn) : -1;
    if (comma < 0) return undefined;
    const above = dn.toString('latin1', comma + 1);
    let known = this.#presentCache.get(above);
    if (known === undefined) {
      known = this.#presentAbove(dn.subarray(comma + 1), only!);
      if (this.#presentCache.size >= MAX_CACHED) this.#presentCache.clear();
      this.#presentCache.set(above, known);
    }
    return known ? Buffer.concat([dn.subarray(0, comma), known]) : undefined;
  }

  /** Returns the current text of a DN at or below the changed one, with a comma before it; else null. */
  #presentAbove(dn: Buffer, { fromNorm, from, to }: Parsed): Buffer | null {
    if (!isParsable(this.#schema, dn)) return null;
    const parsed = this.#schema.parseDnBytes(dn);
    return isAtOrBelow(normTextOf(parsed), fromNorm, true) ? Buffer.from(`,${moveDn(parsed, from, to!).text}`) : null;
  }

  /** Returns the current form of a value. If its entry was deleted, returns the change that deleted the entry. */
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
      } else if (change.restored || !isAtOrBelow(normTextOf(dn), fromNorm, change.below)) continue;
      else if (to) dn = moveDn(dn, from, to);
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

/** Returns a DN at or below `from` as a DN below `to`. The result may be longer than DNs that can be parsed. */
function moveDn(dn: Dn, from: Dn, to: Dn): Dn {
  const own = dn.rdns.slice(0, dn.rdns.length - from.rdns.length);
  if (own.length === 0) return to;
  const head = dn.norm.subarray(0, dn.norm.length - from.norm.length);
  return {
    rdns: [...own, ...to.rdns],
    text: [...own.map(({ text }) => text), to.text].join(','),
    norm: Buffer.concat([head, to.norm]),
  };
}

/** Names given up directly below a DN, as lower-case texts of RDNs. */
interface NamesBelow {
  /** True if the text of a name below the DN is never conclusive. */
  readonly all: boolean;
  readonly rdns: ReadonlySet<string>;
  /** Attribute types in `rdns`, as written. */
  readonly types: ReadonlySet<string>;
}

const MAX_CACHED = 10_000;
const COMMA = Buffer.from(',');
const PLAIN_RDN = /^[a-z][a-z0-9-]*=(?=[^,]*[a-z])[a-z0-9._@]+(?: [a-z0-9._@]+)*$/i;

/** Returns the offset of the comma after an unambiguous first RDN (ignoring case and type aliases); else -1. */
function endOfPlainRdn(dn: Buffer): number {
  const comma = dn.indexOf(0x2c);
  return comma > 0 && PLAIN_RDN.test(dn.toString('latin1', 0, comma)) ? comma : -1;
}

function normTextOf({ norm }: Dn): string {
  return norm.toString('latin1');
}

function withoutUidForm(form: string): string {
  const uid = form.indexOf(UID);
  return uid < 0 ? form : form.slice(0, uid);
}

/** True if the name is `top`, or lies below it and `below` is set. In a normal form `,` occurs only between RDNs. */
function isAtOrBelow(name: string, top: string, below: boolean | undefined): boolean {
  return name === top || (below === true && name.endsWith(top) && name[name.length - top.length - 1] === ',');
}
