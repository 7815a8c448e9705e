import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import { chain, isPromise, type Maybe } from '../../partition/index.js';
import type { FoundRow } from '../../partition/partition.js';
import { matchingSteps, unverifiableReason } from '../../password/index.js';
import type { PasswordPolicyResponse } from '../../protocol/controls/password-policy.js';
import type { BindRequest } from '../../protocol/ldap-messages.js';
import { replicaName } from '../../replica/primary.js';
import type { Dn } from '../../schema/schema-types.js';
import { isLockInForce } from '../passwords/account-lock.js';
import type { AccountPolicy } from '../passwords/account-policy.js';
import { isOutsideDates, Login, recordUse } from '../passwords/account-status.js';
import { type ApplicationPassword, isUsable, matchingApplication } from '../passwords/application-password.js';
import type { RowCredentials } from '../passwords/credentials.js';
import { warningSeconds } from '../passwords/row-account.js';
import { splitCode } from '../passwords/second-factor.js';
import { OperationSource, requireConfidential } from '../request/access.js';
import type { Context } from '../request/context.js';
import { withPolicyControl } from '../request/password-policy.js';
import { administratorPasswords, isBindValid, userIdentity } from '../request/validity.js';
import { type Outcome, outcome, SUCCESS } from '../words/outcome.js';
import { printable } from '../words/printable.js';
import { Session } from '../words/session.js';

/**
 * The response to every failed bind. It does not reveal whether the password is wrong, the account is locked or the
 * user does not exist. The password policy control reports a lock if the policy allows it.
 */
const REFUSAL: Outcome = { code: ResultCode.invalidCredentials, matchedDN: '', message: 'wrong DN or password' };

/** Reasons of binds that are refused before the name is looked up, by result code. */
const THROWN_REASONS: Readonly<Partial<Record<number, string>>> = {
  [ResultCode.confidentialityRequired]: 'password in the clear',
  [ResultCode.invalidDNSyntax]: 'malformed name',
};

const NO_ENTRY_ID = Buffer.alloc(16);
const NO_CREDENTIALS: RowCredentials = {
  version: 0n,
  passwords: [],
  applications: [],
  totp: undefined,
  lock: undefined,
  account: undefined,
};

/**
 * Bind (RFC 4511 §4.2, RFC 4513 §5.1). The identity of an earlier bind is lost even when the bind fails. A failure
 * takes the same work whether or not the user exists (`PasswordVerifier`, `refuseBind`) or is locked.
 */
export function bind(context: Context, request: BindRequest): Maybe<Outcome> {
  const report = (): void => {
    const { bindFailure, services } = context;
    if (bindFailure !== undefined) services.failedBinds.report(context, request.name, bindFailure);
  };
  try {
    return chain(attemptBind(context, request), (result) => {
      report();
      return result;
    });
  } catch (error) {
    if (error instanceof LdapError) context.bindFailure = THROWN_REASONS[error.code];
    report();
    throw error;
  }
}

function attemptBind(context: Context, request: BindRequest): Maybe<Outcome> {
  const { services } = context;
  const { version, name: dnText, authentication } = request;
  if (version !== 3) return outcome('protocolError', `LDAP version ${version} is not supported; 3 is`);
  if (authentication.method === 'sasl') {
    return outcome(
      'authMethodNotSupported',
      `SASL mechanism '${printable(authentication.mechanism)}' is not supported`,
    );
  }
  const { password } = authentication;
  if (password.length === 0) return bindWithoutPassword(context, dnText);
  requireConfidential(context);
  const replica = replicaName(dnText);
  if (replica !== undefined) return bindReplica(context, replica, password);
  const dn = services.schema.parseDn(dnText);
  if (dn.norm.equals(services.admin.norm)) return bindAdmin(context, dn, password);
  return bindUser(context, dn, password);
}

/** RFC 4513 §5.1.1, §5.1.2. A DN without a password is refused, because careless applications take it for a login. */
function bindWithoutPassword(context: Context, dnText: string): Outcome {
  if (dnText === '') return SUCCESS;
  context.bindFailure = 'empty password';
  return outcome('unwillingToPerform', 'a bind with a DN needs a password (RFC 4513 §5.1.2)');
}

/** The administrator is under no policy: nothing locks the account, not even attributes of an entry with this DN. */
function bindAdmin(context: Context, dn: Dn, password: Buffer): Maybe<Outcome> {
  const { services, session } = context;
  return chain(administratorPasswords(services), (stored) =>
    chain(services.verifier.verify(NO_ENTRY_ID, stored, password, new OperationSource(context, dn)), (match) => {
      if (!match) return refuseBind(context, 'wrong password');
      session.identity = { kind: 'admin', dn: services.partition.settings.adminDn, password: Buffer.from(match) };
      return withPolicyControl(context, SUCCESS, {});
    }),
  );
}

/** A replica binds to be sent everything, secrets included: the connection has to be confidential. */
async function bindReplica(context: Context, name: string, password: Buffer): Promise<Outcome> {
  const { services, session, transport } = context;
  if (!transport.isConfidential)
    return outcome('confidentialityRequired', 'a replica binds over TLS or on a local socket');
  const grant = await services.primary.grantOf(name);
  const source = new OperationSource(context);
  const match = await services.verifier.verify(NO_ENTRY_ID, grant ? [grant] : [], password, source);
  if (!match) return refuseBind(context, 'wrong password of a replica');
  session.replica = { name, grant: match };
  return SUCCESS;
}

/** Returns the key of cached credentials: id and version, so that each change of the entry invalidates them. */
function cacheKey(id: Buffer, version: bigint): Buffer {
  const versionKey = Buffer.allocUnsafe(id.length + 8);
  versionKey.set(id, 0);
  versionKey.writeBigInt64BE(version, id.length);
  return versionKey;
}

/** A bind of a user after the lookup of the entry. */
interface BindAttempt {
  readonly context: Context;
  readonly dn: Dn;
  readonly password: Buffer;
  readonly foundRow: FoundRow | undefined;
  readonly credentials: RowCredentials;
  /** `Partition.treeGeneration` before the lookup. */
  readonly generation: number;
}

interface Proof {
  readonly matchedHash: Buffer;
  /** The application password that was used; absent: a password of the entry. */
  readonly application?: ApplicationPassword;
  /** See `VerifiedPassword.totpSteps`. */
  readonly totpSteps?: readonly number[];
}

function bindUser(context: Context, dn: Dn, password: Buffer): Maybe<Outcome> {
  const { partition, credentialReader, policies } = context.services;
  const generation = partition.treeGeneration;
  return chain(partition.findRow(dn), (foundRow) => {
    const credentials = foundRow ? credentialReader.read(foundRow.row) : NO_CREDENTIALS;
    const attempt = { context, dn, password, foundRow, credentials, generation };
    // An entry without passwords is treated like a missing entry.
    if (credentials.passwords.length === 0 && credentials.applications.length === 0) return bindWithoutPolicy(attempt);
    return chain(policies.forBinds(foundRow!.id, credentials), (policy) =>
      policy ? bindWithPolicy(attempt, policy) : bindWithoutPolicy(attempt),
    );
  });
}

function bindWithoutPolicy(attempt: BindAttempt): Maybe<Outcome> {
  return chain(verify(attempt, isAccountClosed(attempt, undefined)), (proof) => {
    if (!proof) return refuseBind(attempt.context, failureReason(attempt, undefined));
    if (!proof.application) return acceptBind(attempt, proof);
    const { foundRow, credentials, context } = attempt;
    const useRecorded = recordUse(context.services.states, foundRow!.id, credentials, proof.application.id);
    return chain(useRecorded, () => acceptBind(attempt, proof));
  });
}

/** Checks the lock of the account before verifying the password, and again when verifying has taken time. */
function bindWithPolicy(attempt: BindAttempt, policy: AccountPolicy): Maybe<Outcome> {
  const { foundRow, credentials } = attempt;
  const { partition, states } = attempt.context.services;
  const login = new Login(states, foundRow!.id, policy, credentials);
  return chain(login.isLocked(), (isLocked) => {
    if (isLocked || isAccountClosed(attempt, policy)) {
      const policyState: PasswordPolicyResponse = policy.tellLockout ? { error: 'accountLocked' } : {};
      const reason = isLocked ? 'account locked' : failureReason(attempt, policy);
      return chain(verify(attempt, true), () => refuseBind(attempt.context, reason, policyState));
    }
    const proofOrPromise = verify(attempt, false, policy.secondFactor);
    if (!isPromise(proofOrPromise)) return finishBind(attempt, login, proofOrPromise, false);
    return proofOrPromise.then((proof) => {
      partition.renewReads();
      return finishBind(attempt, login, proof, true);
    });
  });
}

function finishBind(attempt: BindAttempt, login: Login, proof: Proof | undefined, isLate: boolean): Maybe<Outcome> {
  if (!proof) {
    const { context } = attempt;
    const reason = failureReason(attempt, undefined);
    context.bindFailure = reason;
    return login
      .recordFailure(context.services.hashing.policy)
      .then((isWritten) => (isWritten ? withPolicyControl(context, REFUSAL, {}) : refuseBind(context, reason)));
  }
  return chain(login.admit(isLate, { application: proof.application?.id, totpSteps: proof.totpSteps }), (admission) => {
    if (!admission || admission.isExpired) {
      const policyState: PasswordPolicyResponse = admission ? { error: 'passwordExpired' } : {};
      // A cached credential was verified at once. Without this work the fast refusal would reveal the right password.
      const reason = admission ? 'password expired' : 'account locked, or code used before';
      return chain(isLate ? undefined : verify(attempt, true), () => refuseBind(attempt.context, reason, policyState));
    }
    const { expiresIn, grace } = admission;
    return acceptBind(attempt, proof, { expiresIn, grace }, login.sessionEnd());
  });
}

/** Returns the reason of a failed bind for the log. The client is not told. */
function failureReason(attempt: BindAttempt, policy: AccountPolicy | undefined): string {
  const { context, foundRow, credentials } = attempt;
  if (!foundRow) return 'no such entry';
  if (credentials.passwords.length === 0 && credentials.applications.length === 0) return 'entry has no password';
  if (isAccountClosed(attempt, policy)) return 'account locked or outside its dates';
  const wrong = credentials.totp ? 'wrong password or code' : 'wrong password';
  return unverifiableReason(credentials.passwords, context.services.hashing.policy) ?? wrong;
}

/** Whether attributes of the entry lock or close the account. */
function isAccountClosed({ credentials: { lock, account } }: BindAttempt, policy: AccountPolicy | undefined): boolean {
  const now = Date.now();
  return isLockInForce(lock, policy, now) || isOutsideDates(account, now);
}

/** Verifies the password. On a locked account every password fails, in the same time and with the same response. */
function verify(attempt: BindAttempt, isLocked: boolean, needsCode = false): Maybe<Proof | undefined> {
  const { credentials, password } = attempt;
  const application = isLocked ? undefined : matchingApplication(credentials.applications, password);
  if (!application) {
    const isSimple = isLocked || !(needsCode || credentials.totp);
    return isSimple ? verifyPassword(attempt, password, isLocked) : verifyWithCode(attempt);
  }
  return chain(mayUseApplication(attempt, application), (admission) =>
    admission ? { matchedHash: application.value, application } : verifyPassword(attempt, password, true),
  );
}

/**
 * Verifies a password that is followed by a TOTP code. The code is checked first; after a wrong code the work of
 * verifying is still done, and fails. So the time reveals nothing about the password to a client without a code, and a
 * cached credential is not sufficient.
 */
function verifyWithCode(attempt: BindAttempt): Maybe<Proof | undefined> {
  const { credentials, password } = attempt;
  const passwordAndCode = splitCode(password);
  const totpSecret = credentials.totp && attempt.context.services.secondFactor.decryptSecret(credentials.totp);
  const totpSteps = passwordAndCode && totpSecret ? matchingSteps(totpSecret, passwordAndCode.code, Date.now()) : [];
  if (!passwordAndCode || totpSteps.length === 0) return verifyPassword(attempt, password, true);
  return chain(verifyPassword(attempt, passwordAndCode.password, false), (proof) => proof && { ...proof, totpSteps });
}

function verifyPassword(
  { context, dn, foundRow, credentials }: BindAttempt,
  password: Buffer,
  isLocked: boolean,
): Maybe<Proof | undefined> {
  const versionKey = cacheKey(foundRow?.id ?? NO_ENTRY_ID, credentials.version);
  const { verifier } = context.services;
  const proofOrPromise = verifier.verify(
    versionKey,
    isLocked ? [] : credentials.passwords,
    password,
    new OperationSource(context, dn),
  );
  return chain(proofOrPromise, (matchedHash) => matchedHash && { matchedHash });
}

/** Whether an application password may be used now, on this connection and after the previous bind. */
function mayUseApplication({ context }: BindAttempt, application: ApplicationPassword): Maybe<boolean> {
  const { services, session, transport } = context;
  if (!isUsable(application, transport.address, Date.now())) return false;
  const { usedBy } = application;
  const { previousIdentity } = session;
  if (usedBy === undefined) return true;
  if (previousIdentity.kind === 'anonymous') return false;
  if (!services.schema.parseDn(previousIdentity.dn).norm.equals(services.schema.parseDn(usedBy).norm)) return false;
  const earlierSession = new Session(session.connectionNumber);
  earlierSession.identity = previousIdentity;
  return isBindValid(services, earlierSession);
}

/** Refuses a bind without recording a failure. Writes nevertheless when failures count, to take the same time. */
function refuseBind(context: Context, reason: string, policyState: PasswordPolicyResponse = {}): Maybe<Outcome> {
  context.bindFailure = reason;
  const { states, policies } = context.services;
  return chain(policies.anyCountsFailures(), (failuresCount) => {
    const isWritten = failuresCount ? states.changeDecoyState() : undefined;
    return chain(isWritten, () => withPolicyControl(context, REFUSAL, policyState));
  });
}

function acceptBind(
  attempt: BindAttempt,
  { matchedHash, application, totpSteps }: Proof,
  policyState: PasswordPolicyResponse = {},
  sessionEnd?: number,
): Outcome {
  const { context, foundRow, credentials, generation, password } = attempt;
  const { id, node } = foundRow!;
  const dnText = node.dn.toString();
  const identity = userIdentity(id, dnText, generation, credentials, application?.value, sessionEnd);
  context.session.identity = identity;
  const clearPassword = totpSteps ? splitCode(password)!.password : password;
  // A replica leaves upgrades to its primary.
  if (!application && !context.services.primaryLink)
    context.services.upgrades.enqueueIfWeak(dnText, id, matchedHash, clearPassword, credentials.passwords);
  if (identity.mustChange) return withPolicyControl(context, SUCCESS, { ...policyState, error: 'changeAfterReset' });
  const expiresIn = application ? undefined : warningSeconds(credentials.account, Date.now());
  if (expiresIn === undefined || policyState.grace !== undefined)
    return withPolicyControl(context, SUCCESS, policyState);
  const soonest = Math.min(expiresIn, policyState.expiresIn ?? expiresIn);
  return withPolicyControl(context, SUCCESS, { ...policyState, expiresIn: soonest });
}
