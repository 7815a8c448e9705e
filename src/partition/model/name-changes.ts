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

  constructor(schema: Schema, records: readonly NameChange[]) {
    this.#schema = schema;
    this.records = records;
    this.#changes = records.map((change) => {
      const from = schema.parseDn(change.from);
      const to = change.to === undefined ? undefined : schema.parseDn(change.to);
      return { change, from, to, fromNorm: textOf(from), toNorm: to && textOf(to) };
    });
    this.#isEmpty = records.every(({ restored }) => restored);
  }

  /** Whether all values are called as their entries are. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Whether the name was given up. */
  covers(form: string): boolean {
    const name = bare(form);
    return this.#changes.some(({ change, fromNorm }) => !change.restored && isAt(name, fromNorm, change.below));
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
      else if (to) dn = this.#moved(dn, from, to);
      else gone = change;
      isChanged = true;
    }
    if (gone) return gone;
    return isChanged ? Buffer.concat([Buffer.from(dn.text), value.subarray(end)]) : value;
  }

  /** A DN at or below `from`, as it is below `to`. */
  #moved(dn: Dn, from: Dn, to: Dn): Dn {
    const own = dn.rdns.slice(0, dn.rdns.length - from.rdns.length).map(({ text }) => text);
    return own.length === 0 ? to : this.#schema.parseDn([...own, to.text].join(','));
  }
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
