import type { ResultName } from '../../../ldap/ldap-error.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../../../schema/schema-types.js';
import { isComputed } from '../../model/computed.js';
import type { DescriptionTable, StoredDescription } from '../../model/descriptions.js';
import { EntryReader } from '../../model/entry-reader.js';
import type { Index, IndexSet } from '../../model/index-set.js';
import { cutNorm, largeQualifiers } from '../../model/tables.js';
import { isHidden, type Sight } from '../../model/viewer.js';
import type { IndexWalk } from './order.js';

/** A key by which entries are sorted. */
export interface SortKey {
  readonly description: AttributeDescription;
  readonly rule: MatchingRule;
  readonly isReverse: boolean;
}

/** A key as a client names it. `rule`: name or OID; undefined: the rule of the attribute type. */
export interface NamedKey {
  readonly attribute: string;
  readonly rule: string | undefined;
  readonly isReverse: boolean;
}

/** The reason why entries cannot be sorted by a key (RFC 2891 §1.2). */
export interface KeyRefusal {
  readonly result: ResultName;
  readonly attribute: string;
}

/**
 * Returns the keys, or the refusal of the first one that cannot be used. A type without ordering rule is sorted by the
 * normal forms of its equality rule. Nothing is sorted by secrets, nor by attributes that are not stored.
 */
export function resolveKeys(schema: Schema, named: readonly NamedKey[]): readonly SortKey[] | KeyRefusal {
  const keys: SortKey[] = [];
  for (const { attribute, rule: ruleName, isReverse } of named) {
    const description = schema.describe(attribute);
    if (!description) return { result: 'noSuchAttribute', attribute };
    const { type } = description;
    const rule = ruleName === undefined ? (type.ordering ?? type.equality) : orderingRule(schema, ruleName);
    const isUsable = rule && !isHidden(type) && !isComputed(type);
    if (!isUsable || (ruleName !== undefined && !schema.ruleApplies(rule, type)))
      return { result: 'inappropriateMatching', attribute };
    keys.push({ description, rule, isReverse });
  }
  return keys;
}

function orderingRule(schema: Schema, name: string): MatchingRule | undefined {
  const rule = schema.rule(name);
  return rule?.kind === 'ordering' ? rule : undefined;
}

/**
 * Sorts entries by the normal forms of their values, of which the first 512 bytes count (`cutNorm`). Of several values
 * the least counts. An entry without a value that the viewer may read and search by is behind all others, or before
 * them in reverse order. Values over 64 KiB do not count. Entries with equal keys are sorted by entryUUID.
 */
export class SortOrder implements IndexWalk {
  readonly keys: readonly SortKey[];
  /** The attributes that the keys read. */
  readonly selection = { includes: (stored: StoredDescription) => this.keys.some((_, k) => this.#reads(k, stored)) };
  readonly #schema: Schema;
  readonly #reader: EntryReader;
  /** For each key, by number of the stored description, whether the key reads it. */
  readonly #decisions: boolean[][];

  constructor(schema: Schema, descriptions: DescriptionTable, keys: readonly SortKey[]) {
    this.keys = keys;
    this.#schema = schema;
    this.#reader = new EntryReader(descriptions);
    this.#decisions = keys.map(() => []);
  }

  /** Returns keys and id of an entry as Latin-1: the order of these strings is the order of the entries. */
  record(row: Buffer, sight: Sight | undefined, id: Buffer): string {
    this.#reader.read(row);
    let record = '';
    for (let k = 0; k < this.keys.length; k++) record += keyText(this.#least(k, sight), this.keys[k]!.isReverse);
    return record + id.toString('latin1');
  }

  /**
   * Returns a string that is above all records of entries before those with this value of the first key; undefined if
   * the value is not of its syntax.
   */
  bound(value: Buffer): string | undefined {
    const { rule, isReverse } = this.keys[0]!;
    const norm = rule.normalizeAssertion(value);
    return norm && keyText(cutNorm(norm), isReverse);
  }

  /**
   * The type whose index has the order; undefined if none can have it. An index is in the byte order of normal forms,
   * which is that of values only if no form may contain the zero byte that ends a form.
   */
  get indexedType(): AttributeType | undefined {
    const [{ description, rule, isReverse }, ...more] = this.keys as [SortKey, ...SortKey[]];
    const { type, options } = description;
    const isPlain = more.length === 0 && !isReverse && options.length === 0 && type.subtypes.length === 1;
    return isPlain && !type.syntax.binary && rule.normalize === type.equality?.normalize ? type : undefined;
  }

  indexIn(indexes: IndexSet): Index | undefined {
    const index = this.indexedType && indexes.ofType(this.indexedType);
    return index?.isReady ? index : undefined;
  }

  normOf(row: Buffer, sight: Sight | undefined): Buffer | undefined {
    this.#reader.read(row);
    return this.#least(0, sight);
  }

  /** Returns the least normal form (cut) of the values for key `k` in the reader's row. */
  #least(k: number, sight: Sight | undefined): Buffer | undefined {
    const reader = this.#reader;
    const { rule } = this.keys[k]!;
    const large = largeQualifiers(reader.row);
    let least: Buffer | undefined;
    for (let a = 0; a < reader.attributeCount; a++) {
      const stored = reader.descriptions[a]!;
      if (!this.#reads(k, stored) || !isUsable(sight, stored.description)) continue;
      for (let v = reader.firstValues[a]!; v < reader.firstValues[a + 1]!; v++) {
        if (large?.has(reader.qualifier(a, v).toString('latin1'))) continue;
        const norm = rule.normalize(reader.value(v));
        const cut = norm && cutNorm(norm);
        if (cut && (!least || Buffer.compare(cut, least) < 0)) least = cut;
      }
    }
    return least;
  }

  #reads(k: number, stored: StoredDescription): boolean {
    const decisions = this.#decisions[k]!;
    const { description } = stored;
    decisions[stored.number] ??=
      !isHidden(description.type) && this.#schema.matches(this.keys[k]!.description, description);
    return decisions[stored.number]!;
  }
}

/** Whether the viewer may both read the attribute and search by it. */
function isUsable(sight: Sight | undefined, description: AttributeDescription): boolean {
  return !sight || (['search', 'read'] as const).every((use) => sight.all(use) || sight.allows(use, description));
}

const PRESENT = '\x01';
const MISSING = '\x02';
/** In a key text a zero byte is followed by 0xff. Two zero bytes are its end, so that texts can follow each other. */
const ESCAPED_ZERO = '\0\xff';
const END = '\0\0';

function keyText(norm: Buffer | undefined, isReverse: boolean): string {
  const form = norm?.toString('latin1');
  const escaped = form?.includes('\0') ? form.replaceAll('\0', ESCAPED_ZERO) : form;
  const text = escaped === undefined ? MISSING : PRESENT + escaped + END;
  return isReverse ? Buffer.from(Buffer.from(text, 'latin1').map((byte) => 0xff - byte)).toString('latin1') : text;
}
