import type { Definition } from './definition.js';
import { SchemaError } from './schema-error.js';
import { didYouMean } from './suggest.js';

/** A definition and its position in the source, for error messages. */
export interface ParsedDefinition {
  readonly definition: Definition;
  readonly names: readonly string[];
  readonly file: string;
  readonly line: number;
}

/** Definitions of one kind, by OID and by every name in any case. */
export class Registry<T extends { readonly oid: string; readonly names: readonly string[] }> {
  readonly items: T[] = [];
  private readonly itemsByName = new Map<string, T>();

  add(item: T): void {
    this.items.push(item);
    this.itemsByName.set(item.oid, item);
    for (const name of item.names) {
      this.itemsByName.set(name, item);
      this.itemsByName.set(name.toLowerCase(), item);
    }
  }

  /** By OID or name, in any case. */
  get(nameOrOid: string): T | undefined {
    return this.itemsByName.get(nameOrOid) ?? this.itemsByName.get(nameOrOid.toLowerCase());
  }

  *names(): Generator<string> {
    for (const item of this.items) yield* item.names;
  }
}

export function fail(parsed: ParsedDefinition, message: string): never {
  throw new SchemaError(message, parsed);
}

/** First value of a keyword. */
export function firstValue(parsed: ParsedDefinition, keyword: string): string | undefined {
  return parsed.definition.fields.get(keyword)?.[0];
}

export function hasKeyword(parsed: ParsedDefinition, keyword: string): boolean {
  return parsed.definition.fields.has(keyword);
}

export function describe(parsed: ParsedDefinition): string {
  const [name] = parsed.names;
  return name === undefined ? parsed.definition.id : `'${name}'`;
}

/** Reports an undefined reference: `what 'name' is not defined; did you mean …`. */
export function failUndefined(
  parsed: ParsedDefinition,
  what: string,
  name: string,
  candidates: Iterable<string>,
): never {
  const hint = didYouMean(name, candidates) || '; define it or correct the name';
  fail(parsed, `${describe(parsed)}: ${what} '${name}' is not defined${hint}`);
}
