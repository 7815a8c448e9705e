import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import { parentIdOf, ROOT_ID, UUID_BYTES, upRdnOf } from '../model/tables.js';
import { uuidText } from '../model/uuid.js';
import { joinDn } from '../tree/nodes.js';

/** The most ancestors of an entry. A longer chain of parents is a cycle. */
const MAX_DEPTH = 1000;

/** Returns the DN of an entry whose master row is lost: from the key of its tree row and the DN of its parent. */
export function lostDn(schema: Schema, key: Buffer, id: Buffer, parentDn: Buffer): Buffer {
  return joinDn(Buffer.from(rdnText(schema, key.subarray(UUID_BYTES + 1), id)), parentDn);
}

/**
 * Returns the DN of an entry from the master rows of the entry and its ancestors, read by `rowOf`. If an ancestor has
 * no row, the DN ends with `lostName` of the ancestor, or with its entryUUID.
 */
export async function dnByRows(
  id: Buffer,
  rowOf: (id: Buffer) => Promise<Buffer | undefined>,
  lostName: (id: Buffer) => Buffer | undefined = () => undefined,
): Promise<Buffer> {
  const rdns: Buffer[] = [];
  for (let ancestorId = id; !ancestorId.equals(ROOT_ID) && rdns.length < MAX_DEPTH; ) {
    const row = await rowOf(ancestorId);
    if (!row) {
      rdns.push(lostName(ancestorId) ?? Buffer.from(uuidRdn(ancestorId)));
      break;
    }
    rdns.push(upRdnOf(row));
    ancestorId = Buffer.from(parentIdOf(row));
  }
  return rdns.reduceRight((parentDn, rdn) => joinDn(rdn, parentDn), Buffer.alloc(0));
}

function uuidRdn(id: Buffer): string {
  return `entryUUID=${uuidText(id)}`;
}

/** Returns the normalized RDN in a tree key as text; `entryUUID=…` if it is cut or cannot be parsed. */
function rdnText(schema: Schema, norm: Buffer, id: Buffer): string {
  try {
    const text = splitName(norm, ',')
      .map((rdn) =>
        splitName(rdn, '+')
          .map((ava) => avaText(schema, ava))
          .join('+'),
      )
      .join(',');
    const dn = schema.parseDn(text);
    if (dn.norm.equals(norm)) return dn.text;
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
  }
  return uuidRdn(id);
}

/** Splits a normalized name at separators. In values, separators are escaped. */
function splitName(norm: Buffer, separator: ',' | '+'): Buffer[] {
  return norm
    .toString('latin1')
    .split(separator)
    .map((part) => Buffer.from(part, 'latin1'));
}

function avaText(schema: Schema, ava: Buffer): string {
  const equalsOffset = ava.indexOf(0x3d);
  const oid = ava.toString('latin1', 0, Math.max(equalsOffset, 0));
  let value = '';
  // `\2b`, `\2c` and `\5c` are valid escapes in DNs. Escape the other special bytes.
  for (const byte of ava.subarray(equalsOffset + 1)) {
    const char = String.fromCharCode(byte);
    value += /[0-9A-Za-z\\]/.test(char) ? char : `\\${byte.toString(16).padStart(2, '0')}`;
  }
  return `${schema.describe(oid)?.type.name ?? oid}=${value}`;
}
