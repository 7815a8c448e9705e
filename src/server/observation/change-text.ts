import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { formatChange, formatComment, isAttributeDescription, type LdifChange } from '../../ldif/index.js';
import { decodeApplicationPasswords } from '../../protocol/extended/application-passwords.js';
import type { ExtendedRequest, Request } from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import type { Schema } from '../../schema/schema.js';
import { accountOf } from './request-description.js';

/** Longest value that a text has, in bytes. */
const MAX_VALUE = 8 * 1024;
/** Bytes of values after which further values are left out. */
const MAX_VALUES = 256 * 1024;
const CHANGED = Buffer.from('changed');

/**
 * Formats a request that has succeeded as an LDIF change record (RFC 2849), with a blank line at its end. Secret values
 * are `changed`; comments before the record tell which values were left out. `boundAs`: DN of the client. Returns
 * undefined for a request that changes nothing.
 */
export function formatRequestChange(request: Request, schema: Schema, boundAs: string): string | undefined {
  const values = new ShownValues(schema);
  const change = changeOf(request, values, boundAs);
  return change && values.remarks() + formatChange(change).toString('latin1');
}

function changeOf(request: Request, values: ShownValues, boundAs: string): LdifChange | undefined {
  switch (request.op) {
    case 'add':
      return { kind: 'add', dn: request.dn, attributes: request.attributes.map((one) => values.show(one)) };
    case 'modify': {
      const changes = request.changes.map((one) => ({ ...one, attribute: values.show(one.attribute) }));
      return { kind: 'modify', dn: request.dn, changes };
    }
    case 'delete':
      return { kind: 'delete', dn: request.dn };
    case 'modifyDN':
      return { kind: 'modrdn', ...request };
    case 'extended':
      return passwordChange(request, boundAs);
    default:
      return undefined;
  }
}

function passwordChange(request: ExtendedRequest, boundAs: string): LdifChange | undefined {
  const dn = accountOf(request, boundAs);
  if (dn === undefined) return undefined;
  const attribute = { type: 'userPassword', values: [CHANGED] };
  if (request.oid === ExtendedOid.passwordModify)
    return { kind: 'modify', dn, changes: [{ operation: 'replace', attribute }] };
  const { action } = decodeApplicationPasswords(request.value);
  if (action === 'list') return undefined;
  return { kind: 'modify', dn, changes: [{ operation: action === 'add' ? 'add' : 'delete', attribute }] };
}

/** Decides which values of a request are shown, and keeps what was left out. */
class ShownValues {
  readonly #schema: Schema;
  #comments = '';
  #byteCount = 0;
  #leftOutCount = 0;

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  show({ type: name, values }: PartialAttribute): PartialAttribute {
    const type = isAttributeDescription(name) ? name : 'unreadable';
    if (this.#schema.describe(name)?.type.secret !== false) return { type, values: values.map(() => CHANGED) };
    return { type, values: values.filter((value) => this.#mayShow(type, value.length)) };
  }

  #mayShow(type: string, length: number): boolean {
    this.#byteCount += length;
    if (this.#byteCount > MAX_VALUES) this.#leftOutCount++;
    else if (length > MAX_VALUE) this.#comments += formatComment(`${type}: a value of ${length} bytes is left out`);
    else return true;
    return false;
  }

  remarks(): string {
    if (this.#leftOutCount > 0) this.#comments += formatComment(`${this.#leftOutCount} more values are left out`);
    return this.#comments;
  }
}
