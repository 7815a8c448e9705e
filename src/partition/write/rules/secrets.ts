import { secretNameError, tooManyPasswordsError } from '../../model/secrets.js';
import type { Rule } from '../context.js';

/** Secrets name no entry, and passwords are few. (That they take no options is for the schema to say.) */
export const SECRETS: Rule = {
  name: 'secrets',

  checkRequest(_, { rdn }) {
    return rdn && secretNameError(rdn);
  },

  change(_, { before, after, op }) {
    if (!after || op === 'restore') return undefined;
    for (const attribute of after.attributes) {
      const { description, values } = attribute;
      const refuse = tooManyPasswordsError(description.type, values.length);
      if (refuse && before?.draft.get(description) !== attribute) return { refuse };
    }
    return undefined;
  },
};
