import { BoundedMap } from '../cache/bounded-map.js';
import { LdapError } from '../ldap/ldap-error.js';
import { DESCRIPTOR, NUMERIC_OID } from './definition.js';
import { isDerivedFrom, type Registry, type TypeNode } from './nodes.js';
import type { AttributeDescription } from './schema-types.js';

const MAX_TEXT = 1024;
const MAX_CACHE = 8192;
const OPTION = /^[A-Za-z0-9-]+$/;

/** Parses attribute descriptions (RFC 4512 §2.5). Equal descriptions are the same object. */
export class Describer {
  private readonly types: Registry<TypeNode>;
  /** Results by input text; undefined for unknown and malformed descriptions. */
  private readonly cache = new BoundedMap<string, AttributeDescription | undefined>(MAX_CACHE);
  /** Descriptions without options by canonical text. Never evicted. */
  private readonly withoutOptions = new Map<string, AttributeDescription>();
  private readonly withOptions = new BoundedMap<string, AttributeDescription>(MAX_CACHE);

  constructor(types: Registry<TypeNode>) {
    this.types = types;
  }

  describe(text: string): AttributeDescription | undefined {
    if (text.length > MAX_TEXT) return undefined;
    const cachedDescription = this.cache.get(text);
    if (cachedDescription !== undefined || this.cache.has(text)) return cachedDescription;
    const description = this.parse(text);
    this.cache.set(text, description);
    return description;
  }

  private parse(text: string): AttributeDescription | undefined {
    const [name = '', ...given] = text.split(';');
    const type = this.types.get(name);
    if (!type || !given.every((option) => OPTION.test(option))) return undefined;
    const sortedOptions = [...new Set(given.map((option) => option.toLowerCase()))].sort();
    const options = sortedOptions.filter((option) => option !== 'binary');
    return this.intern({
      type,
      options,
      binary: options.length < sortedOptions.length,
      text: [type.name, ...sortedOptions].join(';'),
    });
  }

  private intern(description: AttributeDescription): AttributeDescription {
    const table = description.options.length === 0 ? this.withoutOptions : this.withOptions;
    const equalDescription = table.get(description.text);
    if (equalDescription) return equalDescription;
    table.set(description.text, description);
    return description;
  }
}

/**
 * Whether a request may use the description: `;binary` is allowed only for syntaxes in BER (RFC 4522 §3). Stored
 * entries may have `;binary` on other types, from older versions of Rowan.
 */
export function isRequestable({ binary, type }: AttributeDescription): boolean {
  return !binary || type.syntax.ber;
}

export function requireRequestable(description: AttributeDescription): void {
  if (isRequestable(description)) return;
  const { name } = description.type;
  throw new LdapError('undefinedAttributeType', `attribute '${name}' has no binary form; leave out ';binary'`);
}

/** Whether `text` has the syntax of an attribute description. The type may be unknown. */
export function isWellFormed(text: string): boolean {
  if (text.length > MAX_TEXT) return false;
  const [name = '', ...options] = text.split(';');
  return (DESCRIPTOR.test(name) || NUMERIC_OID.test(name)) && options.every((option) => OPTION.test(option));
}

/**
 * Whether `requested` covers `stored` (RFC 4512 §2.5.2): `stored` is the same description, has a subtype, or has
 * further options. An option in `requested` that ends in `-` is a range (RFC 3866 §2.2) and matches every option with
 * this prefix. `binary` is ignored.
 */
export function descriptionMatches(requested: AttributeDescription, stored: AttributeDescription): boolean {
  if (requested.type !== stored.type && !isDerivedFrom(stored.type as TypeNode, requested.type)) return false;
  for (const option of requested.options) {
    const range = option.endsWith('-');
    const hasOption = range ? stored.options.some((have) => inRange(have, option)) : stored.options.includes(option);
    if (!hasOption) return false;
  }
  return true;
}

function inRange(option: string, range: string): boolean {
  return option.startsWith(range) || option === range.slice(0, -1);
}
