import { ResultCode } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Result } from '../../protocol/ldap-messages.js';
import type { Schema } from '../../schema/schema.js';

const HIDDEN = 'hidden';
const HIDDEN_VALUE = Buffer.from(HIDDEN);
/** An attribute description up to `=`, and its value up to an unescaped separator. Either may be missing. */
const COMPONENT = /(?:[^,;+=\\]|\\.?)(?:[^,+=\\]|\\.?)*(?:=(?:[^,;+\\]|\\.?)*)?|=(?:[^,;+\\]|\\.?)*/gs;
const SEPARATOR_OR_ESCAPE = /[+;\\]/;

/**
 * Whether values of the attribute must not be shown. Attributes that the schema lacks and descriptions that cannot be
 * parsed count as secret, because a client may have meant a password.
 */
function isSecret(attribute: string | undefined, schema: Schema): boolean {
  // A matching rule without an attribute may compare secrets, too.
  return attribute === undefined || schema.describe(attribute)?.type.secret !== false;
}

/** Messages of these results quote values of the request, such as a password that was typed in place of a name. */
const QUOTING_CODES: ReadonlySet<number> = new Set([
  ...[ResultCode.authMethodNotSupported, ResultCode.invalidAttributeSyntax, ResultCode.noSuchObject],
  ...[ResultCode.invalidDNSyntax, ResultCode.objectClassViolation, ResultCode.authorizationDenied],
]);

/** Returns the message of a result; '' when it quotes what may be a secret. */
export function shownMessage({ code, message }: Pick<Result, 'code' | 'message'>): string {
  return QUOTING_CODES.has(code) || message.startsWith("'") ? '' : message;
}

/** Replaces the values of secret attributes by `hidden`. */
export function hideSecrets(filter: Filter, schema: Schema): Filter {
  switch (filter.type) {
    case 'and':
    case 'or':
      return { ...filter, filters: filter.filters.map((part) => hideSecrets(part, schema)) };
    case 'not':
      return { ...filter, filter: hideSecrets(filter.filter, schema) };
    case 'present':
      return filter;
    case 'substring':
      if (!isSecret(filter.attribute, schema)) return filter;
      return { type: 'equal', attribute: filter.attribute, value: HIDDEN_VALUE };
    default:
      return isSecret(filter.attribute, schema) ? { ...filter, value: HIDDEN_VALUE } : filter;
  }
}

/**
 * Replaces the values of secret attributes in a DN or RDN by `hidden`, and components without an attribute, such as a
 * password that was typed in place of a name.
 */
export function hideSecretsInDn(text: string, schema: Schema): string {
  if (hasOnlyShownTypes(text, schema)) return text;
  return text.replace(COMPONENT, (component) => {
    const end = component.indexOf('=');
    if (end < 0) return component.trim() === '' ? component : HIDDEN;
    return isSecret(component.slice(0, end).trim(), schema) ? `${component.slice(0, end)}=${HIDDEN}` : component;
  });
}

/** Whether a DN without escapes and multi-valued RDNs has no secret attributes, which is found faster than replaced. */
function hasOnlyShownTypes(text: string, schema: Schema): boolean {
  if (SEPARATOR_OR_ESCAPE.test(text)) return false;
  for (let start = 0; ; ) {
    const equals = text.indexOf('=', start);
    if (equals < 0 || isSecret(text.slice(start, equals), schema)) return false;
    start = text.indexOf(',', equals) + 1;
    if (start === 0) return true;
  }
}
