import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import { parentIdOf, ROOT_ID, UUID_BYTES, upRdnOf } from '../model/tables.js';
import { uuidText } from '../model/uuid.js';
import { joinDn } from '../tree/nodes.js';

/** A longer way up goes in a circle. */
const MAX_DEPTH = 1000;

/** The normalized RDN in the key of a tree row; of a suffix its whole DN. */
function normRdnIn(key: Buffer): Buffer {
  return key.subarray(UUID_BYTES + 1);
}

/** DN of an entry whose row is lost, as the key of its tree row and the name of its parent tell it. */
export function lostDn(schema: Schema, key: Buffer, id: Buffer, above: Buffer): Buffer {
  return joinDn(Buffer.from(rdnText(schema, normRdnIn(key), id)), above);
}

/**
 * DN of an entry by the master rows from its own up to the root, which `rowOf` gives. Where it gives none, the name
 * ends with what `lostName` knows of that entry, or else with its entryUUID.
 */
export async function dnByRows(
  id: Buffer,
  rowOf: (id: Buffer) => Promise<Buffer | undefined>,
  lostName: (id: Buffer) => Buffer | undefined = () => undefined,
): Promise<Buffer> {
  const rdns: Buffer[] = [];
  for (let at = id; !at.equals(ROOT_ID) && rdns.length < MAX_DEPTH; ) {
    const row = await rowOf(at);
    if (!row) {
      rdns.push(lostName(at) ?? Buffer.from(entryName(at)));
      break;
    }
    rdns.push(upRdnOf(row));
    at = Buffer.from(parentIdOf(row));
  }
  return rdns.reduceRight((above, rdn) => joinDn(rdn, above), Buffer.alloc(0));
}

function entryName(id: Buffer): string {
  return `entryUUID=${uuidText(id)}`;
}

/** The RDN in a tree row's key: values in their normalized form. Where no name can be made of that, the entryUUID. */
function rdnText(schema: Schema, norm: Buffer, id: Buffer): string {
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
  return entryName(id);
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
