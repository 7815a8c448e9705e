import { sameBytes } from '../../bytes/compare.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Schema } from '../../schema/schema.js';
import type { Rdn } from '../../schema/schema-types.js';
import { type Draft, type DraftValue, hasValue, storedValues } from '../model/draft.js';

/** Adds the superclasses of the given classes to objectClass, so that filters on superclasses match (RFC 4512 §3.3). */
export function completeClasses(schema: Schema, draft: Draft): void {
  const description = schema.requireDescription('objectClass');
  const attribute = draft.get(description);
  if (!attribute) return;
  const missing = missingClasses(schema, attribute.values);
  if (missing.length > 0) draft.append(description, attribute.text, missing);
}

/** Caches the missing superclasses by list of classes, as most entries have one of a few lists. */
class MissingClasses {
  readonly #schema: Schema;
  readonly #known = new BoundedMap<string, readonly Buffer[]>(MAX_CLASS_LISTS);
  /** The last list, which is usually also the next. */
  #last: readonly Buffer[] = [];
  #lastMissing: readonly Buffer[] = [];

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  of(values: readonly DraftValue[]): readonly Buffer[] {
    if (this.#isLast(values)) return this.#lastMissing;
    const names = values.map((value) => value.bytes.toString('latin1'));
    const key = names.join('\0');
    let missing = this.#known.get(key);
    if (!missing) {
      missing = superclasses(this.#schema, names).map((name) => Buffer.from(name));
      this.#known.set(key, missing);
    }
    this.#last = values.map((value) => Buffer.from(value.bytes));
    this.#lastMissing = missing;
    return missing;
  }

  #isLast(values: readonly DraftValue[]): boolean {
    if (values.length !== this.#last.length) return false;
    for (let i = 0; i < values.length; i++) if (!sameBytes(values[i]!.bytes, this.#last[i]!)) return false;
    return true;
  }
}

const missingBySchema = new WeakMap<Schema, MissingClasses>();
const MAX_CLASS_LISTS = 1000;

function missingClasses(schema: Schema, values: readonly DraftValue[]): readonly Buffer[] {
  let lists = missingBySchema.get(schema);
  if (!lists) {
    lists = new MissingClasses(schema);
    missingBySchema.set(schema, lists);
  }
  return lists.of(values);
}

/** Returns the names of the superclasses of `names` that are not in `names`. */
function superclasses(schema: Schema, names: readonly string[]): string[] {
  const present = new Set(names.map((name) => schema.objectClass(name)?.oid));
  const missing: string[] = [];
  const visit = (name: string): void => {
    for (const superior of schema.objectClass(name)?.superiors ?? []) {
      if (!present.has(superior.oid)) {
        present.add(superior.oid);
        missing.push(superior.name);
      }
      visit(superior.oid);
    }
  };
  for (const name of names) visit(name);
  return missing;
}

/** Adds the values of the RDN that the entry lacks. RFC 4511 §4.7 asks clients to send them; most servers add them. */
export function completeRdn(draft: Draft, schema: Schema, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    const description = schema.requireDescription(ava.type.name);
    const attribute = draft.get(description);
    if (attribute && hasValue(attribute.values, ava)) continue;
    draft.append(description, description.text, storedValues(ava.type, [Buffer.from(ava.value)]));
  }
}
