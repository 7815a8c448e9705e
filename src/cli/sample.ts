import { fileURLToPath } from 'node:url';

/** Path of the LDIF of the sample directory. */
export const SAMPLE = fileURLToPath(new URL('../../../scripts/sample.ldif', import.meta.url));
