import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import { StoreError, type StoreErrorCode } from '../../store/store-error.js';

const RESULTS: Record<StoreErrorCode, ResultName> = {
  guard: 'busy',
  noTable: 'unavailable',
  conflict: 'other',
  corrupt: 'other',
  damaged: 'other',
  held: 'unwillingToPerform',
  format: 'other',
  permission: 'unavailable',
  full: 'unavailable',
  limit: 'constraintViolation',
  unavailable: 'unavailable',
  closed: 'unavailable',
};

/** Diagnostic messages. They name no path or row of the server; the log has these from `cause`. */
const MESSAGES: Record<StoreErrorCode, string> = {
  guard: 'others keep changing this entry; try again',
  noTable: 'an index was dropped while it was used; try again',
  conflict: 'the directory’s tables are not as expected; see the server’s log',
  corrupt: 'stored data cannot be read; see the server’s log',
  damaged: 'stored data is damaged; see the server’s log',
  held: 'stored data is damaged: the directory is read-only until its operator has looked at it',
  format: 'stored data is of another format; see the server’s log',
  permission: 'the server may not write its data; see its log',
  full: 'the server has no room left; nothing was changed',
  limit: 'a value or name is longer than the store takes',
  unavailable: 'the store does not answer; try again later',
  closed: 'the server is shutting down',
};

/** Translates store errors to LDAP errors. Every other error passes unchanged. The only such translation. */
export function toLdapError(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  return new LdapError(RESULTS[error.code], MESSAGES[error.code], { cause: error });
}

/** Place of damaged data, as far as known. For the log only. */
export interface Damage {
  readonly table: string | undefined;
  readonly key: string | undefined;
  readonly message: string;
}

export function isDamage(error: unknown): error is StoreError {
  return error instanceof StoreError && (error.code === 'damaged' || error.code === 'corrupt');
}

/** Returns the damage that made an operation fail; undefined for every other failure. */
export function damageOf(error: unknown): Damage | undefined {
  const cause = error instanceof LdapError ? error.cause : error;
  if (!isDamage(cause)) return undefined;
  return { table: cause.table, key: cause.key?.toString('hex'), message: cause.message };
}

/** Returns the store error behind an LDAP error if the store failed; undefined if the request was at fault. */
export function storeFailureOf(error: unknown): StoreError | undefined {
  const cause = error instanceof LdapError ? error.cause : error;
  return cause instanceof StoreError && cause.code !== 'guard' && cause.code !== 'limit' ? cause : undefined;
}
