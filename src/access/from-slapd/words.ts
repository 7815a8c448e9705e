import { stringify } from 'yaml';
import { formatFilter, parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import { parseRules } from '../parse-rules.js';
import { type Name, nameFromDn } from './place.js';

/** Converts parts of the source to the notation of rules. `why`: the reason why rules cannot have the part. */
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

  /** Returns the filter in parentheses. */
  toFilter(filterText: string): string | { readonly why: string } {
    try {
      const text = formatFilter(parseFilter(filterText));
      const reason = this.#fault({ who: {}, to: { filter: text }, allow: ['see'] });
      return reason === undefined ? text : { why: reason };
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      return { why: error.message };
    }
  }

  /** Returns the name of an attribute type whose values can be the requester's DN. */
  toDnAttribute(text: string): string | { readonly why: string } {
    const reason = this.#fault({ who: { attribute: text }, allow: ['see'] });
    return reason === undefined ? this.#schema.attribute(text)!.name : { why: reason };
  }

  toNetwork(text: string): string | { readonly why: string } {
    const reason = this.#fault({ who: { network: text }, allow: ['see'] });
    return reason === undefined ? text : { why: reason };
  }

  /** Returns the error message of `parseRules` for the rule; undefined if the rule is valid. */
  #fault(rule: object): string | undefined {
    const { faults } = parseRules(stringify({ rules: [{ name: 'it', ...rule }] }), this.#schema);
    return faults[0]?.message.replace("rule 'it': ", '');
  }
}
