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
  readonly definitions: T[] = [];
  private readonly itemsByName = new Map<string, T>();

  add(definition: T): void {
    this.definitions.push(definition);
    this.itemsByName.set(definition.oid, definition);
    for (const name of definition.names) {
      this.itemsByName.set(name, definition);
      this.itemsByName.set(name.toLowerCase(), definition);
    }
  }

  /** Looks up a definition by OID or name, in any case. */
  get(nameOrOid: string): T | undefined {
    return this.itemsByName.get(nameOrOid) ?? this.itemsByName.get(nameOrOid.toLowerCase());
  }

  *names(): Generator<string> {
    for (const definition of this.definitions) yield* definition.names;
  }
}

export function fail(parsed: ParsedDefinition, message: string): never {
  throw new SchemaError(message, parsed);
}

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

/** Reports an undefined reference: `label 'name' is not defined; did you mean …`. */
export function failUndefined(
  parsed: ParsedDefinition,
  label: string,
  name: string,
  candidates: Iterable<string>,
): never {
  const hint = didYouMean(name, candidates) || '; define it or correct the name';
  fail(parsed, `${describe(parsed)}: ${label} '${name}' is not defined${hint}`);
}
