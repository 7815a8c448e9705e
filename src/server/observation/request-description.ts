import { formatFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { decodeSessionTracking, type SessionTracking } from '../../protocol/controls/session-tracking.js';
import type { Control, Request } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { Schema } from '../../schema/schema.js';

/** Longest text of a field of a description, in characters. */
const MAX_TEXT = 4096;
/** Most attributes, changes and controls that a description lists. */
const MAX_ITEMS = 100;
const FILTER_LIMITS = { maxText: MAX_TEXT, maxValue: MAX_TEXT };
const HIDDEN_VALUE = Buffer.from('hidden');

/**
 * A request as short texts, without secret values. Plain data, which can be sent to another process. Texts are as the
 * client wrote them: a log has to escape control characters. Texts longer than `MAX_TEXT` end with `…`.
 */
export interface RequestDescription {
  /** Base of a search, name of a bind, or DN of the entry; undefined: the operation names no entry. */
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
  /** messageID of the operation that an abandon names. */
  readonly abandonedId?: number;
  /** OIDs. */
  readonly controls?: readonly string[];
  readonly sessionTracking?: SessionTracking | undefined;
}

export function describeRequest(request: Request, controls: readonly Control[], schema: Schema): RequestDescription {
  const description = describeOperation(request, schema);
  if (controls.length === 0) return description;
  const tracking = controls.find(({ oid }) => oid === ControlOid.sessionTracking);
  const oids = controls.slice(0, MAX_ITEMS).map(oidOf);
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

function oidOf({ oid }: Control): string {
  return cut(oid);
}

function describeOperation(request: Request, schema: Schema): RequestDescription {
  switch (request.op) {
    case 'bind': {
      const { authentication, version } = request;
      const method = authentication.method === 'sasl' ? cut(authentication.mechanism) : 'simple';
      return { target: cut(request.name), method, version };
    }
    case 'search': {
      const { base, scope, filter, attributes } = request;
      const filterText = cut(formatFilter(hideSecrets(filter, schema), FILTER_LIMITS));
      return { target: cut(base), scope, filter: filterText, attributes: cutList(attributes) };
    }
    case 'add':
      return { target: cut(request.dn), attributes: cutList(request.attributes.map(({ type }) => type)) };
    case 'modify': {
      const changes = request.changes.slice(0, MAX_ITEMS + 1);
      const texts = changes.map(({ operation, attribute }) => `${operation}: ${attribute.type}`);
      return { target: cut(request.dn), changes: cutList(texts) };
    }
    case 'modifyDN': {
      const { dn, newRdn, newSuperior, deleteOldRdn } = request;
      const names = { target: cut(dn), newRdn: cut(newRdn), deleteOldRdn };
      return newSuperior === undefined ? names : { ...names, newSuperior: cut(newSuperior) };
    }
    case 'compare':
      return { target: cut(request.dn), attributes: [cut(request.attribute)] };
    case 'delete':
      return { target: cut(request.dn) };
    case 'extended':
      return { oid: cut(request.oid) };
    case 'abandon':
      return { abandonedId: request.target };
    case 'unbind':
      return {};
  }
}

/** Returns a text of at most `MAX_TEXT` characters. A longer one ends with the mark `…`. */
function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

function cutList(texts: readonly string[]): string[] {
  const firstTexts = texts.slice(0, MAX_ITEMS).map(cut);
  return texts.length > MAX_ITEMS ? [...firstTexts, '…'] : firstTexts;
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

/** Whether values of the attribute must not be shown. A rule without an attribute may compare secrets, too. */
function isSecret(attribute: string | undefined, schema: Schema): boolean {
  return attribute === undefined || schema.describe(attribute)?.type.secret === true;
}
