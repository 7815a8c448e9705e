import { randomInt } from 'node:crypto';
import { LdapError } from '../../../ldap/ldap-error.js';
import type { Target } from '../../../partition/index.js';
import { PasswordMatcher } from '../../../password/index.js';
import {
  decodePasswordModify,
  encodeGeneratedPassword,
  type PasswordModify,
} from '../../../protocol/extended/password-modify.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import type { Dn } from '../../../schema/schema-types.js';
import { PASSWORD_ATTRIBUTES } from '../../passwords/operational-changes.js';
import {
  actorOf,
  isOwn,
  namedIdentity,
  OperationSource,
  requireAdmin,
  requireBound,
  requireConfidential,
} from '../../request/access.js';
import type { Context } from '../../request/context.js';
import { passwordChanges, verifyInSession } from '../../request/password-change.js';
import { requireNoReset, requireOwnPassword, runPasswordChange } from '../../request/password-policy.js';
import {
  administratorPasswords,
  isBindValid,
  keepBindValid,
  outdatedBind,
  requireValidBind,
} from '../../request/validity.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';
import type { Session } from '../../words/session.js';

/**
 * Password Modify (RFC 3062). Users change their own password, the administrator all passwords. An old password in the
 * request must be right.
 */
export async function passwordModify(context: Context, request: ExtendedRequest): Promise<Outcome> {
  const { session } = context;
  const fields = decodePasswordModify(request.value);
  requireBound(session, 'change passwords');
  requireConfidential(context);
  const generatedPassword = fields.newPassword === undefined ? generatePassword() : undefined;
  const clearPassword = fields.newPassword ?? generatedPassword!;
  return runPasswordChange(context, async () => {
    requireOwnPassword(session.identity);
    const dn = await targetDn(context, fields.userIdentity).catch((error) => {
      requireNoReset(session.identity);
      throw error;
    });
    if (!dn.norm.equals(context.services.schema.parseDn(session.dn).norm)) requireNoReset(session.identity);
    if (dn.norm.equals(context.services.admin.norm)) await changeAdminPassword(context, fields, clearPassword);
    else await changeUserPassword(context, dn, fields, clearPassword);
    return generatedPassword ? { ...SUCCESS, value: encodeGeneratedPassword(generatedPassword) } : SUCCESS;
  });
}

async function changeAdminPassword(context: Context, fields: PasswordModify, clearPassword: Buffer): Promise<void> {
  const { services, session } = context;
  const { partition, hashing } = services;
  requireAdmin(session, "change the administrator's password");
  const matcher = new PasswordMatcher(hashing.policy, new OperationSource(context));
  if (fields.oldPassword && !(await matcher.findMatch(fields.oldPassword, await administratorPasswords(services))))
    throw wrongOldPassword();
  const storedPassword = await hashing.hash(clearPassword, [], new OperationSource(context));
  await session.runExclusively(() =>
    keepBindValid(session, async (willStore) => {
      const replacedPassword = await partition.adminPassword();
      if (!session.isAdmin || !(await isBindValid(services, session))) throw outdatedBind();
      willStore([storedPassword], 0n);
      if (!(await partition.setAdminPassword(storedPassword, replacedPassword))) throw outdatedBind();
    }),
  );
}

/**
 * Replaces all passwords of the entry. Rights and the old password are checked in each attempt for the entry that the
 * attempt has read; see `modifyPasswords`.
 */
async function changeUserPassword(
  context: Context,
  dn: Dn,
  fields: PasswordModify,
  clearPassword: Buffer,
): Promise<void> {
  const { services, session, controls } = context;
  const { partition, hashing, credentialReader } = services;
  const identity = session.identity;
  const actor = actorOf(context);
  const anyPassword = { operation: 'replace', attribute: { type: 'userPassword', values: [] } } as const;
  await partition.requireAllowed(dn, [anyPassword], actor, controls).catch((error: unknown) => {
    throw hidingExistence(session, fields.userIdentity, error);
  });
  const value = await hashing.hash(clearPassword, [], new OperationSource(context));
  const replaceChange = { operation: 'replace', attribute: { type: 'userPassword', values: [value] } } as const;
  const options = { manageDsaIT: controls.manageDsaIT, touchedDescriptions: ['userPassword', ...PASSWORD_ATTRIBUTES] };
  const matcher = new PasswordMatcher(hashing.policy, new OperationSource(context));
  await keepBindValid(session, (willStore) => {
    const makeChanges = async (target: Target) => {
      const { id, row } = target;
      const credentials = credentialReader.read(row);
      const { passwords: storedPasswords, version } = credentials;
      await requireValidBind(services, session, identity, { id, credentials });
      const { oldPassword } = fields;
      const requireOldPassword = async (old: Buffer) => {
        if (!(await verifyInSession(context, id, credentials, () => matcher.findMatch(old, storedPasswords))))
          throw wrongOldPassword();
      };
      const requireOld = oldPassword && (() => requireOldPassword(oldPassword));
      const request = { clearPasswords: [clearPassword], requireOldPassword: requireOld, writesReset: false };
      const changes = await passwordChanges(context, target, dn.text, credentials, request, [replaceChange], matcher);
      if (isOwn(session.identity, id)) willStore([value], version + 1n);
      return changes;
    };
    return partition.modify(dn, makeChanges, actor, options);
  });
}

/**
 * Returns the error for a client that may not change the password of another entry: the same one whether the entry
 * exists or not. The administrator is told what is wrong.
 */
function hidingExistence(session: Session, named: string | undefined, error: unknown): unknown {
  if (session.isAdmin || named === undefined || !(error instanceof LdapError)) return error;
  if (error.result !== 'noSuchObject' && error.result !== 'insufficientAccessRights') return error;
  return new LdapError('insufficientAccessRights', `'${named}' is no entry whose password you may change`);
}

function wrongOldPassword(): LdapError {
  return new LdapError('invalidCredentials', 'the old password is wrong');
}

/** Returns the DN of the user: a DN, `dn:` with a DN, `u:` with a uid, or undefined for the bound identity. */
async function targetDn(context: Context, identity: string | undefined): Promise<Dn> {
  const { services, session } = context;
  if (identity === undefined) return services.schema.parseDn(session.dn);
  if (identity === '')
    throw new LdapError('protocolError', 'userIdentity is empty; leave it out for the bound identity');
  return namedIdentity(context, identity).catch((error: unknown) => {
    throw hidingExistence(session, identity, error);
  });
}

/** 56 letters and digits that look different from each other. A password of 16 has about 93 random bits. */
const LETTERS = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';

function generatePassword(): Buffer {
  return Buffer.from(Array.from({ length: 16 }, () => LETTERS[randomInt(LETTERS.length)]!).join(''));
}
