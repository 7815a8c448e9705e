import { secretNameError, tooManyPasswordsError } from '../../model/secrets.js';
import type { Rule } from '../context.js';

/** Refuses secrets in RDNs and too many passwords. (The rule `SCHEMA` refuses options on secrets.) */
export const SECRETS: Rule = {
  name: 'secrets',

  checkRequest(_, { rdn }) {
    return rdn && secretNameError(rdn);
  },

  checkChange(_, { before, after, op }) {
    if (!after || op === 'restore') return undefined;
    for (const attribute of after.attributes) {
      const { description, values } = attribute;
      const refuse = tooManyPasswordsError(description.type, values.length);
      if (refuse && before?.draft.get(description) !== attribute) return { refuse };
    }
    return undefined;
  },
};
