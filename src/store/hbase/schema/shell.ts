import type { TableDescriptor } from './descriptor.js';

/** A key in single quotes: the shell's language leaves `\\xHH` as it stands, and HBase reads it as the byte. */
function quoted(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c;
    text += plain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }
  return `'${text}'`;
}

function attributesOf(attributes: Readonly<Record<string, string>>): string {
  return Object.entries(attributes)
    .map(([name, value]) => `, ${name} => '${value}'`)
    .join('');
}

/** The `create` command of HBase's shell for the table, pre-split. */
export function createCommand({ name, attributes, families, splits }: TableDescriptor): string {
  const parts = families.map((family) => `{NAME => '${family.name}'${attributesOf(family.attributes)}}`);
  if (splits.length > 0) parts.push(`{SPLITS => [${splits.map(quoted).join(', ')}]}`);
  return `create '${name}'${attributesOf(attributes)}, ${parts.join(', ')}`;
}

/** Adds families that an older table lacks. */
export function alterCommand({ name, families }: TableDescriptor, missing: readonly string[]): string {
  const parts = families
    .filter((family) => missing.includes(family.name))
    .map((family) => `{NAME => '${family.name}'${attributesOf(family.attributes)}}`);
  return `alter '${name}', ${parts.join(', ')}`;
}

export function dropCommands(name: string): string[] {
  return [`disable '${name}'`, `drop '${name}'`];
}
