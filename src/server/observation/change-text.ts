import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { formatChange, formatComment, isAttributeDescription, type LdifChange, LEFT_OUT } from '../../ldif/index.js';
import type { GivenNumbers } from '../../partition/model/directory-types.js';
import { attributeKey } from '../../partition/model/draft.js';
import { AUTO } from '../../partition/write/rules/numbers.js';
import { decodeApplicationPasswords } from '../../protocol/extended/application-passwords.js';
import type { ExtendedRequest, Request } from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import type { Schema } from '../../schema/schema.js';
import { accountOf } from './request-description.js';

/** Longest value that a text has, in bytes. */
const MAX_VALUE = 8 * 1024;
/** Bytes of values after which further values are left out. */
const MAX_VALUES = 256 * 1024;

/**
 * Formats a request that has succeeded as an LDIF change record (RFC 2849), with a blank line at its end. Secret and
 * long values are left out, and so is a change without its values: a replay would remove what it set. A comment that
 * begins with `LEFT_OUT` tells of each. A record without changes is a comment. `boundAs`: DN of the client. Returns
 * undefined for a request that changes nothing.
 */
export function formatRequestChange(
  request: Request,
  schema: Schema,
  boundAs: string,
  givenNumbers?: GivenNumbers,
): string | undefined {
  const values = new ShownValues(schema, givenNumbers);
  const change = changeOf(request, values, boundAs);
  if (change === undefined) return undefined;
  const text = formatChange(change).toString('latin1');
  const hasChanges = change.kind !== 'modify' || change.changes.length > 0;
  return values.remarks() + (hasChanges ? text : `${formatComment(text.trimEnd()).toString('latin1')}\n`);
}

/** As `formatRequestChange`, for a record of a file. */
export function formatRecordChange(record: LdifChange, schema: Schema, givenNumbers: GivenNumbers): string {
  const op = record.kind === 'modrdn' ? 'modifyDN' : record.kind;
  return formatRequestChange({ ...record, op } as Request, schema, '', givenNumbers)!;
}

function changeOf(request: Request, values: ShownValues, boundAs: string): LdifChange | undefined {
  switch (request.op) {
    case 'add':
      return { kind: 'add', dn: request.dn, attributes: request.attributes.map((one) => values.show(one)) };
    case 'modify': {
      const changes = request.changes.flatMap((one) => {
        const attribute = values.show(one.attribute, `${one.operation}: `);
        return attribute.values.length === 0 && one.attribute.values.length > 0 ? [] : { ...one, attribute };
      });
      return { kind: 'modify', dn: request.dn, changes };
    }
    case 'delete':
      return { kind: 'delete', dn: request.dn };
    case 'modifyDN':
      return { kind: 'modrdn', ...request };
    case 'extended':
      return passwordChange(request, values, boundAs);
    default:
      return undefined;
  }
}

/** A change of passwords is a modify record, of which the value is left out. */
function passwordChange(request: ExtendedRequest, values: ShownValues, boundAs: string): LdifChange | undefined {
  const dn = accountOf(request, boundAs);
  if (dn === undefined) return undefined;
  const isWhole = request.oid === ExtendedOid.passwordModify;
  const action = isWhole ? 'replace' : decodeApplicationPasswords(request.value).action;
  if (action === 'list') return undefined;
  values.leaveOut(`${action}: userPassword, secret`);
  return { kind: 'modify', dn, changes: [] };
}

/** Decides which values of a request are shown, and keeps what was left out. */
class ShownValues {
  readonly #schema: Schema;
  readonly #givenNumbers: GivenNumbers | undefined;
  #comments = '';
  #byteCount = 0;
  #leftOutCount = 0;

  constructor(schema: Schema, givenNumbers: GivenNumbers | undefined) {
    this.#schema = schema;
    this.#givenNumbers = givenNumbers;
  }

  /** `label`: what stands before the attribute in a comment. */
  show({ type: name, values }: PartialAttribute, label = ''): PartialAttribute {
    const type = isAttributeDescription(name) ? name : 'unreadable';
    const description = this.#schema.describe(name);
    const isSecret = description?.type.secret !== false;
    if (isSecret && values.length > 0) this.leaveOut(`${label}${type}, secret`);
    const shown = values.filter((value) => !isSecret && this.#mayShow(label + type, value.length));
    return { type, values: description ? this.#withNumbers(attributeKey(description), shown) : shown };
  }

  /** Puts the number that the server gave in place of `auto`. Leaves `auto` out where none was given. */
  #withNumbers(key: string, values: Buffer[]): Buffer[] {
    if (!this.#givenNumbers?.has(key)) return values;
    const number = this.#givenNumbers.get(key);
    return values.flatMap((value) => (value.equals(AUTO) ? (number ?? []) : value));
  }

  #mayShow(name: string, length: number): boolean {
    this.#byteCount += length;
    if (this.#byteCount > MAX_VALUES) this.#leftOutCount++;
    else if (length > MAX_VALUE) this.leaveOut(`${name}, a value of ${length} bytes`);
    else return true;
    return false;
  }

  leaveOut(text: string): void {
    this.#comments += `${LEFT_OUT}${text}\n`;
  }

  remarks(): string {
    if (this.#leftOutCount > 0) this.leaveOut(`${this.#leftOutCount} more values`);
    return this.#comments;
  }
}
