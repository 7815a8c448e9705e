import { fileURLToPath } from 'node:url';

export const SAMPLE = fileURLToPath(new URL('../../../scripts/sample.ldif', import.meta.url));
