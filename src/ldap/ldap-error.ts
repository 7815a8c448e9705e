/** Result codes of RFC 4511 §4.1.9 and its extensions (RFC 3909, 4370, 4528, 4533, drafts of no-op and list view). */
export const ResultCode = {
  success: 0,
  operationsError: 1,
  protocolError: 2,
  timeLimitExceeded: 3,
  sizeLimitExceeded: 4,
  compareFalse: 5,
  compareTrue: 6,
  authMethodNotSupported: 7,
  strongerAuthRequired: 8,
  referral: 10,
  adminLimitExceeded: 11,
  unavailableCriticalExtension: 12,
  confidentialityRequired: 13,
  saslBindInProgress: 14,
  noSuchAttribute: 16,
  undefinedAttributeType: 17,
  inappropriateMatching: 18,
  constraintViolation: 19,
  attributeOrValueExists: 20,
  invalidAttributeSyntax: 21,
  noSuchObject: 32,
  aliasProblem: 33,
  invalidDNSyntax: 34,
  aliasDereferencingProblem: 36,
  inappropriateAuthentication: 48,
  invalidCredentials: 49,
  insufficientAccessRights: 50,
  busy: 51,
  unavailable: 52,
  unwillingToPerform: 53,
  loopDetect: 54,
  sortControlMissing: 60,
  offsetRangeError: 61,
  namingViolation: 64,
  objectClassViolation: 65,
  notAllowedOnNonLeaf: 66,
  notAllowedOnRDN: 67,
  entryAlreadyExists: 68,
  objectClassModsProhibited: 69,
  affectsMultipleDSAs: 71,
  virtualListViewError: 76,
  other: 80,
  canceled: 118,
  noSuchOperation: 119,
  tooLate: 120,
  cannotCancel: 121,
  assertionFailed: 122,
  authorizationDenied: 123,
  syncRefreshRequired: 4096,
  noOperation: 16_654,
} as const;

export type ResultName = keyof typeof ResultCode;

const namesByCode = new Map<number, ResultName>();
for (const [name, code] of Object.entries(ResultCode)) namesByCode.set(code, name as ResultName);

/** Returns the name of a result code; the number as text if the code is not in `ResultCode`. */
export function resultName(code: number): string {
  return namesByCode.get(code) ?? String(code);
}

export interface LdapErrorOptions {
  /** DN of the deepest entry found during name resolution, as text (RFC 4511 §4.1.9). */
  matchedDN?: string;
  /** LDAP URLs, for result `referral`. */
  referrals?: readonly string[];
  cause?: unknown;
}

/** An operation's result other than success. The client sees `message`, so it never contains a secret. */
export class LdapError extends Error {
  override readonly name = 'LdapError';
  readonly result: ResultName;
  readonly matchedDN: string;
  readonly referrals: readonly string[];

  constructor(result: ResultName, message: string, options: LdapErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.result = result;
    this.matchedDN = options.matchedDN ?? '';
    this.referrals = options.referrals ?? [];
  }

  get code(): number {
    return ResultCode[this.result];
  }
}
