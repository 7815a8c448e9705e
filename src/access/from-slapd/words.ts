import { stringify } from 'yaml';
import { formatFilter, parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import { parseRules } from '../parse-rules.js';
import { type Name, nameOf } from './place.js';

/** Parts of the source as rules have them; what they cannot have is told as a text. */
export class RuleWords {
  readonly #schema: Schema;

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  name(text: string): Name | { readonly why: string } {
    try {
      return nameOf(this.#schema.parseDn(text));
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      return { why: error.message };
    }
  }

  /** A filter in parentheses. */
  filter(given: string): string | { readonly why: string } {
    try {
      const text = formatFilter(parseFilter(given));
      const why = this.#fault({ who: {}, to: { filter: text }, allow: ['see'] });
      return why === undefined ? text : { why };
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      return { why: error.message };
    }
  }

  /** Attributes whose values name who asks: the type's name. */
  pointing(given: string): string | { readonly why: string } {
    const why = this.#fault({ who: { attribute: given }, allow: ['see'] });
    return why === undefined ? this.#schema.attribute(given)!.name : { why };
  }

  network(given: string): string | { readonly why: string } {
    const why = this.#fault({ who: { network: given }, allow: ['see'] });
    return why === undefined ? given : { why };
  }

  /** What the reader of rules objects to. */
  #fault(rule: object): string | undefined {
    const { faults } = parseRules(stringify({ rules: [{ name: 'it', ...rule }] }), this.#schema);
    return faults[0]?.message.replace("rule 'it': ", '');
  }
}
