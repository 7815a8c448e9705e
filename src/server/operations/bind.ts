import { ResultCode } from '../../ldap/ldap-error.js';
import type { FoundRow } from '../../partition/partition.js';
import { matchingSteps } from '../../password/index.js';
import type { PasswordPolicyTold } from '../../protocol/controls/password-policy.js';
import type { BindRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { isLockInForce } from '../passwords/account-lock.js';
import type { AccountPolicy } from '../passwords/account-policy.js';
import { isOutsideDates } from '../passwords/account-status.js';
import { type ApplicationPassword, isUsable, matchingApplication } from '../passwords/application-password.js';
import type { RowCredentials } from '../passwords/credentials.js';
import { Login, recordUse } from '../passwords/login.js';
import { splitCode } from '../passwords/second-factor.js';
import { OperationSource, requireConfidential } from '../request/access.js';
import type { Context } from '../request/context.js';
import { withPolicyControl } from '../request/password-policy.js';
import { isBindValid, userIdentity } from '../request/validity.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import { type Outcome, outcome, SUCCESS } from '../words/outcome.js';
import { printable } from '../words/printable.js';
import { Session } from '../words/session.js';

/**
 * One answer for every failure: it tells neither a wrong password nor a lock from a user that does not exist. The
 * control tells a lock where the policy says so.
 */
const REFUSED: Outcome = { code: ResultCode.invalidCredentials, matchedDN: '', message: 'wrong DN or password' };

const NOBODY = Buffer.alloc(16);
const NO_ENTRY: RowCredentials = {
  version: 0n,
  passwords: [],
  applications: [],
  totp: undefined,
  lock: undefined,
  account: undefined,
};

/**
 * RFC 4511 §4.2, RFC 4513 §5.1. Whatever comes of it, the identity of an earlier bind is gone. A failure costs the same
 * work whether the user exists or not (`PasswordVerifier`, `refused`), and is locked or not.
 */
export function bind(context: Context, request: BindRequest): Maybe<Outcome> {
  const { services } = context;
  const { version, name, authentication } = request;
  if (version !== 3) return outcome('protocolError', `LDAP version ${version} is not supported; 3 is`);
  if (authentication.method === 'sasl') {
    return outcome(
      'authMethodNotSupported',
      `SASL mechanism '${printable(authentication.mechanism)}' is not supported`,
    );
  }
  const { password } = authentication;
  if (password.length === 0) return bindWithoutPassword(name);
  requireConfidential(context);
  const dn = services.schema.parseDn(name);
  if (dn.norm.equals(services.admin.norm)) return bindAdmin(context, dn, password);
  return bindUser(context, dn, password);
}

/** RFC 4513 §5.1.1, §5.1.2: a DN without a password would be taken for success by careless applications. */
function bindWithoutPassword(name: string): Outcome {
  if (name === '') return SUCCESS;
  return outcome('unwillingToPerform', 'a bind with a DN needs a password (RFC 4513 §5.1.2)');
}

function bindAdmin(context: Context, dn: Dn, password: Buffer): Maybe<Outcome> {
  const { services, session } = context;
  return chain(services.partition.adminPassword(), (stored) =>
    chain(services.verifier.verify(NOBODY, [stored], password, new BindSource(context, dn)), (matched) => {
      if (!matched) return refused(context);
      session.identity = { kind: 'admin', dn: services.partition.settings.adminDn, password: stored };
      return withPolicyControl(context, SUCCESS, {});
    }),
  );
}

/** What a cached credential is bound to: it is of no use after any change of the entry. */
function stateOf(id: Buffer, version: bigint): Buffer {
  const state = Buffer.allocUnsafe(id.length + 8);
  state.set(id, 0);
  state.writeBigInt64BE(version, id.length);
  return state;
}

/** Work for whoever is named. */
class BindSource extends OperationSource {
  readonly #dn: Dn;

  constructor(context: Context, dn: Dn) {
    super(context);
    this.#dn = dn;
  }

  get identity(): string {
    return this.#dn.norm.toString('latin1');
  }
}

/** What a bind is about, once its entry has been looked for. */
interface Attempt {
  readonly context: Context;
  readonly dn: Dn;
  readonly password: Buffer;
  readonly found: FoundRow | undefined;
  readonly credentials: RowCredentials;
  /** `Partition.treeGeneration` before that. */
  readonly generation: number;
}

/** What a bind has proved. */
interface Proof {
  /** The stored value that was verified. */
  readonly matched: Buffer;
  /** It is an application password. */
  readonly application?: ApplicationPassword;
  /** Of the code behind it: see `Means`. */
  readonly steps?: readonly number[];
}

function bindUser(context: Context, dn: Dn, password: Buffer): Maybe<Outcome> {
  const { partition, credentialReader, policies } = context.services;
  const generation = partition.treeGeneration;
  return chain(partition.findRow(dn), (found) => {
    const credentials = found ? credentialReader.read(found.row) : NO_ENTRY;
    const attempt = { context, dn, password, found, credentials, generation };
    // Nobody binds as what has no password: such an entry is treated as none.
    if (credentials.passwords.length === 0 && credentials.applications.length === 0) return bindFreely(attempt);
    return chain(policies.forBinds(found!.id, credentials), (policy) =>
      policy ? bindUnder(attempt, policy) : bindFreely(attempt),
    );
  });
}

/** Under no policy. */
function bindFreely(attempt: Attempt): Maybe<Outcome> {
  return chain(verify(attempt, isClosed(attempt, undefined)), (proof) => {
    if (!proof) return refused(attempt.context);
    if (!proof.application) return bound(attempt, proof);
    const { found, credentials, context } = attempt;
    const noted = recordUse(context.services.partition, found!.id, credentials, proof.application.id);
    return chain(noted, () => bound(attempt, proof));
  });
}

/** The account's lock is asked before its password, and again where verifying has taken time. */
function bindUnder(attempt: Attempt, policy: AccountPolicy): Maybe<Outcome> {
  const { found, credentials } = attempt;
  const { partition } = attempt.context.services;
  const login = new Login(partition, found!.id, policy, credentials);
  return chain(login.isLocked(), (locked) => {
    if (locked || isClosed(attempt, policy)) {
      const told: PasswordPolicyTold = policy.tellLockout ? { error: 'accountLocked' } : {};
      return chain(verify(attempt, true), () => refused(attempt.context, told));
    }
    const verifying = verify(attempt, false, policy.secondFactor);
    if (!isPromise(verifying)) return decide(attempt, login, verifying, false);
    return verifying.then((proof) => {
      partition.renewReads();
      return decide(attempt, login, proof, true);
    });
  });
}

function decide(attempt: Attempt, login: Login, proof: Proof | undefined, later: boolean): Maybe<Outcome> {
  if (!proof)
    return login
      .fail()
      .then((written) => (written ? withPolicyControl(attempt.context, REFUSED, {}) : refused(attempt.context)));
  return chain(login.admit(later, { application: proof.application?.id, steps: proof.steps }), (admitted) => {
    if (!admitted || admitted.expired) {
      const told: PasswordPolicyTold = admitted ? { error: 'passwordExpired' } : {};
      // A password that was remembered to be right has taken no time: the answer would tell so.
      return chain(later ? undefined : verify(attempt, true), () => refused(attempt.context, told));
    }
    const { expiresIn, grace } = admitted;
    return bound(attempt, proof, { expiresIn, grace }, login.sessionEnd());
  });
}

/** Whether nobody binds by what the entry itself says. */
function isClosed({ credentials: { lock, account } }: Attempt, policy: AccountPolicy | undefined): boolean {
  const now = Date.now();
  return isLockInForce(lock, policy, now) || isOutsideDates(account, now);
}

/** Of an account that is locked no password is right: neither the answer nor its time tells which would be. */
function verify(attempt: Attempt, locked: boolean, secondFactor = false): Maybe<Proof | undefined> {
  const { credentials, password } = attempt;
  const application = locked ? undefined : matchingApplication(credentials.applications, password);
  if (!application) {
    const isSimple = locked || !(secondFactor || credentials.totp);
    return isSimple ? verifyPassword(attempt, password, locked) : verifyWithCode(attempt);
  }
  return chain(isAdmitted(attempt, application), (admitted) =>
    admitted ? { matched: application.value, application } : verifyPassword(attempt, password, true),
  );
}

/**
 * The code is looked at first: behind a wrong one no password is right, and the work of one is done for nothing. So the
 * time tells nothing of the password to who has no code, and what is remembered of it is not enough.
 */
function verifyWithCode(attempt: Attempt): Maybe<Proof | undefined> {
  const { credentials, password } = attempt;
  const given = splitCode(password);
  const secret = credentials.totp && attempt.context.services.secondFactor.open(credentials.totp);
  const steps = given && secret ? matchingSteps(secret, given.code, Date.now()) : [];
  if (!given || steps.length === 0) return verifyPassword(attempt, password, true);
  return chain(verifyPassword(attempt, given.password, false), (proof) => proof && { ...proof, steps });
}

function verifyPassword(
  { context, dn, found, credentials }: Attempt,
  password: Buffer,
  locked: boolean,
): Maybe<Proof | undefined> {
  const state = stateOf(found?.id ?? NOBODY, credentials.version);
  const { verifier } = context.services;
  const verifying = verifier.verify(state, locked ? [] : credentials.passwords, password, new BindSource(context, dn));
  return chain(verifying, (matched) => matched && { matched });
}

/** Whether the application password is good here and now, after a bind as whom it is for. */
function isAdmitted({ context }: Attempt, application: ApplicationPassword): Maybe<boolean> {
  const { services, session, transport } = context;
  if (!isUsable(application, transport.address, Date.now())) return false;
  const { usedBy } = application;
  const { previousIdentity } = session;
  if (usedBy === undefined) return true;
  if (previousIdentity.kind === 'anonymous') return false;
  if (!services.schema.parseDn(previousIdentity.dn).norm.equals(services.schema.parseDn(usedBy).norm)) return false;
  const earlier = new Session(session.connection);
  earlier.identity = previousIdentity;
  return isBindValid(services, earlier);
}

/** Where failures count a bind that is refused without being counted writes, too: their time is the same. */
function refused(context: Context, told: PasswordPolicyTold = {}): Maybe<Outcome> {
  const { partition, policies } = context.services;
  return chain(policies.anyCountsFailures(), (counts) => {
    const written = counts ? partition.changeNobodysState() : undefined;
    return chain(written, () => withPolicyControl(context, REFUSED, told));
  });
}

function bound(
  attempt: Attempt,
  { matched, application, steps }: Proof,
  told: PasswordPolicyTold = {},
  expires?: number,
): Outcome {
  const { context, found, credentials, generation, password } = attempt;
  const { id, node } = found!;
  const name = node.dn.toString();
  const identity = userIdentity(id, name, generation, credentials, application?.value, expires);
  context.session.identity = identity;
  const clear = steps ? splitCode(password)!.password : password;
  if (!application) context.services.upgrades.consider(name, id, matched, clear, credentials.passwords);
  return withPolicyControl(context, SUCCESS, identity.mustChange ? { ...told, error: 'changeAfterReset' } : told);
}
