import { formatFilter } from '../../ldap/filter-text.js';
import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { decodeSessionTracking, type SessionTracking } from '../../protocol/controls/session-tracking.js';
import { decodeApplicationPasswords } from '../../protocol/extended/application-passwords.js';
import { decodeCancel } from '../../protocol/extended/cancel.js';
import { decodePasswordModify } from '../../protocol/extended/password-modify.js';
import type { Control, ExtendedRequest, Request, Result } from '../../protocol/ldap-messages.js';
import { ControlOid, ExtendedOid } from '../../protocol/oids.js';
import type { Schema } from '../../schema/schema.js';

/** Longest text of a field of a description, in characters. */
const MAX_TEXT = 4096;
/** Most attributes, changes and controls that a description lists. */
const MAX_ITEMS = 100;
const FILTER_LIMITS = { maxText: MAX_TEXT, maxValue: MAX_TEXT };

/**
 * A request as short texts, without secret values. Plain data, which can be sent to another process. Texts are as the
 * client wrote them: a log has to escape control characters. Texts longer than `MAX_TEXT` end with `…`.
 */
export interface RequestDescription {
  /** Base of a search, name of a bind, or DN of the entry or account; undefined: the operation names none. */
  readonly target?: string;
  readonly scope?: Scope;
  readonly filter?: string;
  /** Selected attributes of a search; attribute of a compare; attributes of an add. */
  readonly attributes?: readonly string[];
  /** `replace: mail` for each change of a modify. */
  readonly changes?: readonly string[];
  /** `simple`, or the SASL mechanism. */
  readonly method?: string;
  readonly version?: number;
  /** requestName of an extended operation. */
  readonly oid?: string;
  readonly newRdn?: string;
  readonly newSuperior?: string;
  readonly deleteOldRdn?: boolean;
  /** messageID of the operation that an abandon or a cancel names. */
  readonly abandonedId?: number;
  /** OIDs. */
  readonly controls?: readonly string[];
  readonly sessionTracking?: SessionTracking | undefined;
}

/** `boundAs`: DN of the client, whose entry is the target of some extended operations that name none. */
export function describeRequest(
  request: Request,
  controls: readonly Control[],
  schema: Schema,
  boundAs: string,
): RequestDescription {
  const description = describeOperation(request, schema, boundAs);
  if (controls.length === 0) return description;
  const tracking = controls.find(({ oid }) => oid === ControlOid.sessionTracking);
  const oids = cutList(controls.map(({ oid }) => oid));
  return { ...description, controls: oids, sessionTracking: tracking && decodeIfValid(tracking) };
}

/** Returns undefined for a malformed value, for which the request was refused. */
function decodeIfValid({ value }: Control): SessionTracking | undefined {
  try {
    return decodeSessionTracking(value);
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

function describeOperation(request: Request, schema: Schema, boundAs: string): RequestDescription {
  switch (request.op) {
    case 'bind': {
      const { authentication, version } = request;
      const method = authentication.method === 'sasl' ? mechanismOf(authentication.mechanism) : 'simple';
      return { target: cutDn(request.name, schema), method, version };
    }
    case 'search': {
      const { base, scope, filter, attributes } = request;
      const filterText = cut(formatFilter(hideSecrets(filter, schema), FILTER_LIMITS));
      return { target: cutDn(base, schema), scope, filter: filterText, attributes: cutList(attributes) };
    }
    case 'add':
      return {
        target: cutDn(request.dn, schema),
        attributes: cutList(request.attributes.slice(0, MAX_ITEMS + 1).map(({ type }) => type)),
      };
    case 'modify': {
      const changes = request.changes.slice(0, MAX_ITEMS + 1);
      const texts = changes.map(({ operation, attribute }) => `${operation}: ${attribute.type}`);
      return { target: cutDn(request.dn, schema), changes: cutList(texts) };
    }
    case 'modifyDN': {
      const { dn, newRdn, newSuperior, deleteOldRdn } = request;
      const names = { target: cutDn(dn, schema), newRdn: cutDn(newRdn, schema), deleteOldRdn };
      return newSuperior === undefined ? names : { ...names, newSuperior: cutDn(newSuperior, schema) };
    }
    case 'compare':
      return { target: cutDn(request.dn, schema), attributes: [cut(request.attribute)] };
    case 'delete':
      return { target: cutDn(request.dn, schema) };
    case 'extended':
      return { oid: cut(request.oid), ...describeTarget(request, schema, boundAs) };
    case 'abandon':
      return { abandonedId: request.target };
    case 'unbind':
      return {};
  }
}

/** Describes what an extended operation works on. A malformed value, which was refused, has no target. */
function describeTarget(request: ExtendedRequest, schema: Schema, boundAs: string): RequestDescription {
  try {
    if (request.oid === ExtendedOid.cancel) return { abandonedId: decodeCancel(request.value) };
    const target = accountOf(request, boundAs) ?? '';
    return target === '' ? {} : { target: cutDn(target, schema) };
  } catch (error) {
    if (error instanceof LdapError) return {};
    throw error;
  }
}

/**
 * Returns the DN of the account whose passwords an extended operation lists or changes; undefined: of none. The
 * operation names it by an authzId (RFC 4513 §5.2.1.8) or a DN, or means the client. Throws `LdapError`.
 */
export function accountOf({ oid, value }: ExtendedRequest, boundAs: string): string | undefined {
  if (oid === ExtendedOid.applicationPasswords) return decodeApplicationPasswords(value).entry ?? boundAs;
  if (oid !== ExtendedOid.passwordModify) return undefined;
  return (decodePasswordModify(value).userIdentity ?? boundAs).replace(/^dn:/i, '');
}

/** Returns a text of at most `MAX_TEXT` characters. A longer one ends with the mark `…`. */
function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

export function cutDn(text: string, schema: Schema): string {
  return hideSecretsInDn(cut(text), schema);
}

/** A text that is no mechanism name (RFC 4422 §3.1) may be a password. */
function mechanismOf(text: string): string {
  return /^[A-Z0-9_-]{1,20}$/.test(text) ? text : 'invalid';
}

/** Returns the first texts: at most `MAX_ITEMS`, and `MAX_TEXT` characters together. Further texts become `…`. */
function cutList(texts: readonly string[]): string[] {
  const firstTexts: string[] = [];
  let remainingLength = MAX_TEXT;
  for (const text of texts) {
    remainingLength -= text.length;
    if (firstTexts.length === MAX_ITEMS || remainingLength < 0) return [...firstTexts, '…'];
    firstTexts.push(text);
  }
  return firstTexts;
}

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
function hideSecrets(filter: Filter, schema: Schema): Filter {
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
function hideSecretsInDn(text: string, schema: Schema): string {
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
