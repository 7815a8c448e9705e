import type { View } from '../partition/types.js';

/** Who runs a command beside the data sees all of it, as far as a filter can tell. Secrets stay out of filters all the same. */
export const EVERYTHING: View = { hides: (type) => type.secret };
