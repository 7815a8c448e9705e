import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import { StoreError, type StoreErrorCode } from '../../store/store-error.js';

/**
 * Result and message for each store error. Messages name no path or row; the log shows these from `cause`. An empty
 * message stands for that of the error.
 */
const TRANSLATIONS: Record<StoreErrorCode, readonly [ResultName, string]> = {
  guard: ['busy', 'others keep changing what this write depends on; try again'],
  noTable: ['unavailable', 'an index was dropped while it was used; try again'],
  missing: ['unavailable', 'a table of the directory is missing; see the server’s log'],
  conflict: ['other', 'the directory’s tables are not as expected; see the server’s log'],
  corrupt: ['other', 'stored data cannot be read; see the server’s log'],
  damaged: ['other', 'stored data is damaged; see the server’s log'],
  held: [
    'unwillingToPerform',
    'stored data is damaged: the directory is read-only until its operator has looked at it',
  ],
  format: ['other', 'stored data is of another format; see the server’s log'],
  notPrimary: ['unavailable', ''],
  permission: ['unavailable', 'the server may not write its data; see its log'],
  full: ['unavailable', 'the server has no room left; nothing was changed'],
  limit: ['constraintViolation', 'a value or name is longer than the store takes'],
  unavailable: ['unavailable', 'the store does not answer; try again later'],
  closed: ['unavailable', 'the server is shutting down'],
};

/** Translates a store error to an LDAP error. Returns any other error unchanged. All translations are made here. */
export function toLdapError(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  const [result, message] = TRANSLATIONS[error.code];
  return new LdapError(result, message || error.message, { cause: error });
}

/** Location of damaged data, as far as it is known. For the log only. */
export interface Damage {
  readonly table: string | undefined;
  readonly key: string | undefined;
  readonly message: string;
}

export function isDamage(error: unknown): error is StoreError {
  return error instanceof StoreError && (error.code === 'damaged' || error.code === 'corrupt');
}

/** Returns the damage that made an operation fail; undefined for any other failure. */
export function damageOf(error: unknown): Damage | undefined {
  const cause = error instanceof LdapError ? error.cause : error;
  if (!isDamage(cause)) return undefined;
  return { table: cause.table, key: cause.key?.toString('hex'), message: cause.message };
}

/** Returns the store error that an LDAP error was translated from; undefined if the request was at fault. */
export function storeFailureOf(error: unknown): StoreError | undefined {
  const cause = error instanceof LdapError ? error.cause : error;
  return cause instanceof StoreError && cause.code !== 'guard' && cause.code !== 'limit' ? cause : undefined;
}
