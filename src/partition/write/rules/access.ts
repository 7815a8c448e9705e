import type { Rule } from '../context.js';

/**
 * Whoever writes may do it: by what the request says, and by the entry that it is done to. Actors without access may do
 * all.
 */
export const ACCESS: Rule = {
  name: 'access',

  asked(_, asked) {
    return asked.actor.access?.asked(asked);
  },

  missing(_, asked, error) {
    return asked.actor.access?.missing(asked, error);
  },

  found(_, asked, { node, stored }) {
    const { access } = asked.actor;
    if (!access) return undefined;
    return access.found(asked, { id: node.id, dn: node.dn, attributes: stored?.draft.attributes });
  },
};
