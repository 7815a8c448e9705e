import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { withoutUid } from './group-rows.js';

/** A change of an entry's name that stored references to the entry do not reflect yet. */
export interface NameChange {
  /** entryUUID, hexadecimal. */
  readonly id: string;
  /** The old DN as text; for a restored entry its current DN. */
  readonly from: string;
  /** The new DN. Absent for a deleted or a restored entry. */
  readonly to?: string;
  /** Whether the names of the entries below change, too. */
  readonly below?: true;
  /** Milliseconds since 1970. Distinguishes several changes of one entry. */
  readonly time?: number;
  readonly restored?: true;
}

/** A `NameChange` with its DNs parsed. */
interface ParsedChange {
  readonly change: NameChange;
  readonly from: Dn;
  readonly to: Dn | undefined;
  readonly fromNormText: string;
  readonly toNormText: string | undefined;
}

/** Separates DN and UID in the normal form of a uniqueMember value. No normal form of an RDN begins with `#`. */
const UID = ',#';

/**
 * The pending changes of names, in order. Until a change is settled, rows may have a DN as it was at any time since the
 * first change. A *lost name* is the former name of a renamed, moved or deleted entry that no other entry has taken.
 * Normal forms are Latin-1 text.
 */
export class NameChanges {
  readonly records: readonly NameChange[];
  readonly #schema: Schema;
  readonly #changes: readonly ParsedChange[];
  readonly #isEmpty: boolean;
  /** Lost names. The value: whether the names below are lost, too. */
  readonly #lostNames = new Map<string, boolean>();
  /** Cached lost names directly below a DN, by the text of the DN. */
  readonly #belowCache = new Map<string, NamesBelow>();
  /** Cached current texts by the old text of a DN; null if the DN is not at or below the changed DN. */
  readonly #currentCache = new Map<string, Buffer | null>();

  constructor(schema: Schema, records: readonly NameChange[]) {
    this.#schema = schema;
    this.records = records;
    this.#changes = records.map((change) => {
      const from = schema.parseDn(change.from);
      const to = change.to === undefined ? undefined : schema.parseDn(change.to);
      return { change, from, to, fromNormText: normTextOf(from), toNormText: to && normTextOf(to) };
    });
    this.#isEmpty = records.every(({ restored }) => restored);
    for (const { change, fromNormText } of this.#changes)
      if (!change.restored)
        this.#lostNames.set(fromNormText, change.below === true || this.#lostNames.get(fromNormText) === true);
  }

  /** Whether no change is pending. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Whether the DN is a lost name, or lies below a lost name whose entries below were renamed with it. */
  includesNormText(normText: string): boolean {
    if (this.#lostNames.size === 0) return false;
    const dnNormText = normTextWithoutUid(normText);
    if (this.#lostNames.has(dnNormText)) return true;
    for (let comma = dnNormText.indexOf(','); comma >= 0; comma = dnNormText.indexOf(',', comma + 1))
      if (this.#lostNames.get(dnNormText.slice(comma + 1))) return true;
    return false;
  }

  /** Returns false if the text of the DN alone shows that the name is not lost. Saves most normalizations. */
  mayInclude(dn: Buffer): boolean {
    const comma = endOfPlainRdn(dn);
    if (comma < 0) return true;
    const parentText = dn.toString('latin1', comma + 1);
    let lostNames = this.#belowCache.get(parentText);
    if (!lostNames) {
      lostNames = this.#namesBelow(dn.subarray(comma + 1));
      if (this.#belowCache.size >= MAX_CACHED) this.#belowCache.clear();
      this.#belowCache.set(parentText, lostNames);
    }
    if (lostNames.isInconclusive) return true;
    if (lostNames.rdnTexts.size === 0) return false;
    const rdnText = dn.toString('latin1', 0, comma).toLowerCase();
    return lostNames.rdnTexts.has(rdnText) || !lostNames.types.has(rdnText.slice(0, rdnText.indexOf('=')));
  }

  /** Returns an object whose `mayInclude` tests names that are in `dns`. Ignores texts that are too long for a DN. */
  forDns(dns: readonly Buffer[]): NameChanges {
    const parsable = dns.filter((dn) => isParsable(this.#schema, dn));
    return new NameChanges(
      this.#schema,
      parsable.map((dn) => ({ id: '', from: dn.toString() })),
    );
  }

  #namesBelow(dn: Buffer): NamesBelow {
    const result = { isInconclusive: false, rdnTexts: new Set<string>(), types: new Set<string>() };
    if (!isParsable(this.#schema, dn)) return { ...result, isInconclusive: true };
    const normText = normTextOf(this.#schema.parseDnBytes(dn));
    if (this.includesNormText(`,${normText}`)) return { ...result, isInconclusive: true };
    for (const { change, from, fromNormText } of this.#changes) {
      if (change.restored || from.rdns.length === 0) continue;
      if (fromNormText.slice(from.rdns[0]!.norm.length + 1) !== normText) continue;
      const rdn = Buffer.from(from.rdns[0]!.text);
      if (endOfPlainRdn(Buffer.concat([rdn, COMMA])) < 0) return { ...result, isInconclusive: true };
      const text = rdn.toString('latin1').toLowerCase();
      result.rdnTexts.add(text);
      result.types.add(text.slice(0, text.indexOf('=')));
    }
    return result;
  }

  /** Returns all normal forms that rows may have for a current DN; none if the name is lost. */
  storedNormTexts(normText: string): readonly string[] {
    if (this.isEmpty) return [normText];
    return this.includesNormText(normText) ? [] : this.#olderNormTexts(normText, this.#changes.length);
  }

  /** Returns all normal forms that rows may have for the name that change number `n` made a lost name. */
  normTextsBefore(n: number): readonly string[] {
    return this.#olderNormTexts(this.#changes[n]!.fromNormText, n);
  }

  #olderNormTexts(normText: string, changeCount: number): string[] {
    const dnNormText = normTextWithoutUid(normText);
    const uidText = normText.slice(dnNormText.length);
    const dnNormTexts = [dnNormText];
    for (let i = changeCount - 1; i >= 0; i--) {
      const { change, fromNormText, toNormText } = this.#changes[i]!;
      if (toNormText === undefined) continue;
      for (const laterChange of [...dnNormTexts])
        if (isAtOrBelow(laterChange, toNormText, change.below))
          dnNormTexts.push(laterChange.slice(0, laterChange.length - toNormText.length) + fromNormText);
    }
    return dnNormTexts.map((older) => older + uidText);
  }

  /**
   * Fast path of `currentValue` for a single rename or move of a subtree, for large groups. Undefined if the text of
   * the DN does not show that the DN lies below the old name.
   */
  currentDnBelow(dn: Buffer): Buffer | undefined {
    const [onlyChange, ...otherChanges] = this.#changes;
    const comma = onlyChange?.to && otherChanges.length === 0 && onlyChange.change.below ? endOfPlainRdn(dn) : -1;
    if (comma < 0) return undefined;
    const parentText = dn.toString('latin1', comma + 1);
    let currentParent = this.#currentCache.get(parentText);
    if (currentParent === undefined) {
      currentParent = this.#currentParent(dn.subarray(comma + 1), onlyChange!);
      if (this.#currentCache.size >= MAX_CACHED) this.#currentCache.clear();
      this.#currentCache.set(parentText, currentParent);
    }
    return currentParent ? Buffer.concat([dn.subarray(0, comma), currentParent]) : undefined;
  }

  /** Returns the current text of a DN at or below the changed DN, after a comma; null for any other DN. */
  #currentParent(dn: Buffer, { fromNormText, from, to }: ParsedChange): Buffer | null {
    if (!isParsable(this.#schema, dn)) return null;
    const oldDn = this.#schema.parseDnBytes(dn);
    return isAtOrBelow(normTextOf(oldDn), fromNormText, true) ? Buffer.from(`,${moveDn(oldDn, from, to!).text}`) : null;
  }

  /** Returns the value with the current name of its entry; for a deleted entry the change that deleted it. */
  currentValue(type: AttributeType, value: Buffer): Buffer | NameChange {
    const dnLength = withoutUid(type, value).length;
    let dn = this.#schema.parseDnBytes(value.subarray(0, dnLength));
    let isChanged = false;
    let deletion: NameChange | undefined;
    for (const { change, from, to, fromNormText } of this.#changes) {
      if (deletion) {
        if (!change.restored || change.id !== deletion.id) continue;
        deletion = undefined;
        dn = from;
      } else if (change.restored || !isAtOrBelow(normTextOf(dn), fromNormText, change.below)) continue;
      else if (to) dn = moveDn(dn, from, to);
      else deletion = change;
      isChanged = true;
    }
    if (deletion) return deletion;
    return isChanged ? Buffer.concat([Buffer.from(dn.text), value.subarray(dnLength)]) : value;
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

/** Replaces the end `oldDn` of a DN by `newDn`. The result may be longer than DNs that can be parsed. */
function moveDn(dn: Dn, oldDn: Dn, newDn: Dn): Dn {
  const lowerRdns = dn.rdns.slice(0, dn.rdns.length - oldDn.rdns.length);
  if (lowerRdns.length === 0) return newDn;
  const lowerNorm = dn.norm.subarray(0, dn.norm.length - oldDn.norm.length);
  return {
    rdns: [...lowerRdns, ...newDn.rdns],
    text: [...lowerRdns.map(({ text }) => text), newDn.text].join(','),
    norm: Buffer.concat([lowerNorm, newDn.norm]),
  };
}

/** Lost names directly below a DN, as lower-case texts of their RDNs. */
interface NamesBelow {
  /** Whether no text of a name below the DN shows that the name is not lost. */
  readonly isInconclusive: boolean;
  readonly rdnTexts: ReadonlySet<string>;
  /** Attribute types in `rdnTexts`, as written. */
  readonly types: ReadonlySet<string>;
}

const MAX_CACHED = 10_000;
const COMMA = Buffer.from(',');
const PLAIN_RDN = /^[a-z][a-z0-9-]*=(?=[^,]*[a-z])[a-z0-9._@]+(?: [a-z0-9._@]+)*$/i;

/** Returns the offset of the comma after the first RDN; -1 if the RDN has escapes or is otherwise ambiguous as text. */
function endOfPlainRdn(dn: Buffer): number {
  const comma = dn.indexOf(0x2c);
  return comma > 0 && PLAIN_RDN.test(dn.toString('latin1', 0, comma)) ? comma : -1;
}

function normTextOf({ norm }: Dn): string {
  return norm.toString('latin1');
}

function normTextWithoutUid(normText: string): string {
  const uid = normText.indexOf(UID);
  return uid < 0 ? normText : normText.slice(0, uid);
}

/** Whether the name is `top` or, with `includesBelow`, lies below it. In a normal form `,` occurs only between RDNs. */
function isAtOrBelow(text: string, top: string, includesBelow: boolean | undefined): boolean {
  return text === top || (includesBelow === true && text.endsWith(top) && text[text.length - top.length - 1] === ',');
}
