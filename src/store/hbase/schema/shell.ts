import type { TableDescriptor } from './descriptor.js';

/** Quotes a key. In single quotes the shell passes `\xHH` on unchanged, and HBase decodes it. */
function quoteKey(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c;
    text += isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }
  return `'${text}'`;
}

function formatAttributes(attributes: Readonly<Record<string, string>>): string {
  return Object.entries(attributes)
    .map(([name, value]) => `, ${name} => '${value}'`)
    .join('');
}

/** Returns the `create` command of HBase's shell for the table, with split keys. */
export function createCommand({ name, attributes, families, splitKeys }: TableDescriptor): string {
  const clauses = families.map((family) => `{NAME => '${family.name}'${formatAttributes(family.attributes)}}`);
  if (splitKeys.length > 0) clauses.push(`{SPLITS => [${splitKeys.map(quoteKey).join(', ')}]}`);
  return `create '${name}'${formatAttributes(attributes)}, ${clauses.join(', ')}`;
}

/** Returns the `alter` command that adds missing families. */
export function alterCommand({ name, families }: TableDescriptor, missingFamilies: readonly string[]): string {
  const clauses = families
    .filter((family) => missingFamilies.includes(family.name))
    .map((family) => `{NAME => '${family.name}'${formatAttributes(family.attributes)}}`);
  return `alter '${name}', ${clauses.join(', ')}`;
}

export function dropCommands(name: string): string[] {
  return [`disable '${name}'`, `drop '${name}'`];
}
