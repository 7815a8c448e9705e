import { sameBytes } from '../../bytes/compare.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Schema } from '../../schema/schema.js';
import type { Rdn } from '../../schema/schema-types.js';
import { type Draft, type DraftValue, hasValue, storedValues } from '../model/draft.js';

/** Adds superclasses to objectClass, so that filters on superclasses match (RFC 4512 §3.3). */
export function completeClasses(schema: Schema, draft: Draft): void {
  const description = schema.requireDescription('objectClass');
  const attribute = draft.get(description);
  if (!attribute) return;
  const missingClasses = findMissingClasses(schema, attribute.values);
  if (missingClasses.length > 0) draft.append(description, attribute.text, missingClasses);
}

/** Caches missing superclasses by list of classes, because most entries have one of a few lists. */
class SuperclassCache {
  readonly #schema: Schema;
  readonly #missingByKey = new BoundedMap<string, readonly Buffer[]>(MAX_CLASS_LISTS);
  /** The last list of classes. Consecutive entries mostly have the same list. */
  #lastClasses: readonly Buffer[] = [];
  #lastMissing: readonly Buffer[] = [];

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  missingFor(values: readonly DraftValue[]): readonly Buffer[] {
    if (this.#isLast(values)) return this.#lastMissing;
    const classNames = values.map((value) => value.bytes.toString('latin1'));
    const key = classNames.join('\0');
    let missingNames = this.#missingByKey.get(key);
    if (!missingNames) {
      missingNames = missingSuperclasses(this.#schema, classNames).map((name) => Buffer.from(name));
      this.#missingByKey.set(key, missingNames);
    }
    this.#lastClasses = values.map((value) => Buffer.from(value.bytes));
    this.#lastMissing = missingNames;
    return missingNames;
  }

  #isLast(values: readonly DraftValue[]): boolean {
    if (values.length !== this.#lastClasses.length) return false;
    for (let i = 0; i < values.length; i++) if (!sameBytes(values[i]!.bytes, this.#lastClasses[i]!)) return false;
    return true;
  }
}

const cachesBySchema = new WeakMap<Schema, SuperclassCache>();
const MAX_CLASS_LISTS = 1000;

function findMissingClasses(schema: Schema, values: readonly DraftValue[]): readonly Buffer[] {
  let cache = cachesBySchema.get(schema);
  if (!cache) {
    cache = new SuperclassCache(schema);
    cachesBySchema.set(schema, cache);
  }
  return cache.missingFor(values);
}

function missingSuperclasses(schema: Schema, classNames: readonly string[]): string[] {
  const presentOids = new Set(classNames.map((name) => schema.objectClass(name)?.oid));
  const missingNames: string[] = [];
  const visit = (name: string): void => {
    for (const superior of schema.objectClass(name)?.superiors ?? []) {
      if (!presentOids.has(superior.oid)) {
        presentOids.add(superior.oid);
        missingNames.push(superior.name);
      }
      visit(superior.oid);
    }
  };
  for (const name of classNames) visit(name);
  return missingNames;
}

/** Adds missing values of the RDN. By RFC 4511 §4.7 clients have to send them, but most servers add them. */
export function completeRdn(draft: Draft, schema: Schema, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    const description = schema.requireDescription(ava.type.name);
    const attribute = draft.get(description);
    if (attribute && hasValue(attribute.values, ava)) continue;
    draft.append(description, description.text, storedValues(ava.type, [Buffer.from(ava.value)]));
  }
}
