import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const VENDOR = 'Rowan';

/** Reads the version from package.json, which is in a folder above the compiled files. */
function readVersion(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); dirname(folder) !== folder; folder = dirname(folder)) {
    const file = readIfExists(join(folder, 'package.json'));
    if (file === undefined) continue;
    const { name, version } = JSON.parse(file) as { name?: string; version?: string };
    if (name === 'rowan-ldap' && version) return version;
  }
  return '0';
}

function readIfExists(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export const VERSION = readVersion();
