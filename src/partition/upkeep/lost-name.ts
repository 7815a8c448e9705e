import { LdapError } from '../../ldap/error.js';
import type { Schema } from '../../schema/schema.js';
import { UUID_BYTES } from '../model/tables.js';
import { uuidText } from '../model/uuid.js';

/** The normalized RDN in the key of a tree row; of a suffix its whole DN. */
export function normRdnIn(key: Buffer): Buffer {
  return key.subarray(UUID_BYTES + 1);
}

/**
 * The name of an entry whose row is lost, as its tree row tells it: values in their normalized form. Where no name can
 * be made of that, the entryUUID.
 */
export function rdnText(schema: Schema, norm: Buffer, id: Buffer): string {
  try {
    const text = split(norm, ',')
      .map((rdn) =>
        split(rdn, '+')
          .map((ava) => avaText(schema, ava))
          .join('+'),
      )
      .join(',');
    const dn = schema.parseDn(text);
    if (dn.norm.equals(norm)) return dn.text;
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
  }
  return `entryUUID=${uuidText(id)}`;
}

/** In a normalized name these separators stand for nothing else. */
function split(norm: Buffer, separator: ',' | '+'): Buffer[] {
  return norm
    .toString('latin1')
    .split(separator)
    .map((part) => Buffer.from(part, 'latin1'));
}

function avaText(schema: Schema, ava: Buffer): string {
  const equals = ava.indexOf(0x3d);
  const oid = ava.toString('latin1', 0, Math.max(equals, 0));
  let value = '';
  // `\2b`, `\2c` and `\5c` are escapes of a DN as they are; other bytes become escapes.
  for (const byte of ava.subarray(equals + 1)) {
    const char = String.fromCharCode(byte);
    value += /[0-9A-Za-z\\]/.test(char) ? char : `\\${byte.toString(16).padStart(2, '0')}`;
  }
  return `${schema.describe(oid)?.type.name ?? oid}=${value}`;
}
