import { stringify } from 'yaml';
import { formatFilter, parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import { parseRules } from '../parse-rules.js';
import { type Name, nameFromDn } from './place.js';

/** Converts parts of the source into the notation of rules, or returns the reason why rules cannot have a part. */
export class RuleWords {
  readonly #schema: Schema;

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  toName(text: string): Name | { readonly why: string } {
    try {
      return nameFromDn(this.#schema.parseDn(text));
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      return { why: error.message };
    }
  }

  /** A filter in parentheses. */
  toFilter(given: string): string | { readonly why: string } {
    try {
      const text = formatFilter(parseFilter(given));
      const why = this.#fault({ who: {}, to: { filter: text }, allow: ['see'] });
      return why === undefined ? text : { why };
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      return { why: error.message };
    }
  }

  /** The name of an attribute type whose values are DNs of requesters. */
  toDnAttribute(given: string): string | { readonly why: string } {
    const why = this.#fault({ who: { attribute: given }, allow: ['see'] });
    return why === undefined ? this.#schema.attribute(given)!.name : { why };
  }

  toNetwork(given: string): string | { readonly why: string } {
    const why = this.#fault({ who: { network: given }, allow: ['see'] });
    return why === undefined ? given : { why };
  }

  /** The error message of `parseRules` for the rule; undefined if there is none. */
  #fault(rule: object): string | undefined {
    const { faults } = parseRules(stringify({ rules: [{ name: 'it', ...rule }] }), this.#schema);
    return faults[0]?.message.replace("rule 'it': ", '');
  }
}
