/** Filters, scopes and modifications (RFC 4511 §4.5.1, §4.6), for all folders. */

export type Filter =
  | { readonly type: 'and' | 'or'; readonly filters: readonly Filter[] }
  | { readonly type: 'not'; readonly filter: Filter }
  | {
      readonly type: 'equal' | 'greaterOrEqual' | 'lessOrEqual' | 'approx';
      readonly attribute: string;
      readonly value: Buffer;
    }
  | { readonly type: 'present'; readonly attribute: string }
  | {
      readonly type: 'substring';
      readonly attribute: string;
      readonly initial: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final: Buffer | undefined;
    }
  | {
      readonly type: 'extensible';
      readonly rule: string | undefined;
      readonly attribute: string | undefined;
      readonly value: Buffer;
      readonly dnAttributes: boolean;
    };

export type Scope = 'base' | 'one' | 'sub' | 'subordinate';
export type DerefAliases = 'never' | 'searching' | 'finding' | 'always';

export interface PartialAttribute {
  /** Attribute description as the client wrote it. */
  readonly type: string;
  readonly values: readonly Buffer[];
}

export interface Modification {
  readonly operation: 'add' | 'delete' | 'replace' | 'increment';
  readonly attribute: PartialAttribute;
}

/** A change of an entry, of the kinds of LDIF change records (RFC 2849). `modrdn` stands for `moddn`, too. */
export type EntryChange = { readonly dn: string } & (
  | { readonly kind: 'add'; readonly attributes: readonly PartialAttribute[] }
  | { readonly kind: 'delete' }
  | { readonly kind: 'modify'; readonly changes: readonly Modification[] }
  | {
      readonly kind: 'modrdn';
      readonly newRdn: string;
      readonly deleteOldRdn: boolean;
      readonly newSuperior: string | undefined;
    }
);
