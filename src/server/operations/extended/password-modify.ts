import { randomInt } from 'node:crypto';
import { LdapError } from '../../../ldap/ldap-error.js';
import type { Target } from '../../../partition/index.js';
import { EVERYTHING } from '../../../partition/index.js';
import type { Matches } from '../../../password/index.js';
import {
  decodePasswordModify,
  encodeGeneratedPassword,
  type PasswordModify,
} from '../../../protocol/extended/password-modify.js';
import type { ExtendedRequest } from '../../../protocol/messages.js';
import type { Dn } from '../../../schema/schema-types.js';
import { actorOf, isOwn, requireAdmin, requireBound, requireConfidential, sourceOf } from '../../request/access.js';
import type { Context } from '../../request/context.js';
import { keepingBind, outlived, requireHeld } from '../../request/validity.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';
import type { Session } from '../../words/session.js';

/**
 * RFC 3062. Users change their own password, the administrator anybody's; an old password that is given must be right.
 */
export async function passwordModify(context: Context, request: ExtendedRequest): Promise<Outcome> {
  const { session } = context;
  const asked = decodePasswordModify(request.value);
  requireBound(session, 'change passwords');
  requireConfidential(context);
  const generated = asked.newPassword === undefined ? generate() : undefined;
  const clear = asked.newPassword ?? generated!;
  const dn = await subject(context, asked.userIdentity);
  if (dn.norm.equals(context.services.admin.norm)) await changeAdmin(context, asked, clear);
  else await changeUser(context, dn, asked, clear);
  return generated ? { ...SUCCESS, value: encodeGeneratedPassword(generated) } : SUCCESS;
}

async function changeAdmin(context: Context, asked: PasswordModify, clear: Buffer): Promise<void> {
  const { services, session } = context;
  const { partition, passwords } = services;
  requireAdmin(session, "change the administrator's password");
  if (asked.oldPassword)
    await requireOld(passwords.matches(sourceOf(context)), asked.oldPassword, [await partition.adminPassword()]);
  const stored = await passwords.hash(clear, [], sourceOf(context));
  await session.inTurn(() =>
    keepingBind(session, async (willStore) => {
      const { identity } = session;
      if (identity.kind !== 'admin') throw outlived();
      willStore([stored], 0n);
      if (!(await partition.setAdminPassword(stored, identity.password))) throw outlived();
    }),
  );
}

/**
 * The new password takes the place of all that the entry has. Right and old password are looked at in each attempt, for
 * the entry that it changes: see `modifyPasswords`.
 */
async function changeUser(context: Context, dn: Dn, asked: PasswordModify, clear: Buffer): Promise<void> {
  const { services, session, controls } = context;
  const { partition, passwords, credentials } = services;
  const identity = session.identity;
  const found = await partition.findRow(dn);
  requireRight(session, found?.id);
  if (!found) throw new LdapError('noSuchObject', `there is no entry '${dn.text}'`);
  const value = await passwords.hash(clear, [], sourceOf(context));
  const replace = { operation: 'replace', attribute: { type: 'userPassword', values: [value] } } as const;
  const options = { manageDsaIT: controls.manageDsaIT, touches: ['userPassword'] };
  const matches = passwords.matches(sourceOf(context));
  await keepingBind(session, (willStore) => {
    const changesOf = async ({ id, row }: Target) => {
      const own = credentials.ofRow(row);
      const { passwords: stored, version } = own;
      await requireHeld(services, session, identity, own);
      if (asked.oldPassword) await requireOld(matches, asked.oldPassword, stored);
      if (isOwn(session.identity, id)) willStore([value], version + 1n);
      return [replace];
    };
    return partition.modify(dn, changesOf, actorOf(session), options);
  });
}

function requireRight(session: Session, id: Buffer | undefined): void {
  if (!isOwn(session.identity, id)) requireAdmin(session, 'change the password of another');
}

async function requireOld(matches: Matches, clear: Buffer, stored: readonly Buffer[]): Promise<void> {
  if (!(await matches.find(clear, stored))) throw new LdapError('invalidCredentials', 'the old password is wrong');
}

/** Whose password: a DN, `dn:` and a DN, `u:` and a uid, or nothing for the bound identity. */
async function subject(context: Context, identity: string | undefined): Promise<Dn> {
  const { services, session } = context;
  if (identity === undefined) return services.schema.parseDn(session.dn);
  if (identity === '')
    throw new LdapError('protocolError', 'userIdentity is empty; leave it out for the bound identity');
  if (/^u:/i.test(identity)) return findUser(context, identity.slice(2));
  return services.schema.parseDn(identity.replace(/^dn:/i, ''));
}

async function findUser({ services }: Context, uid: string): Promise<Dn> {
  const { partition, schema } = services;
  const found: string[] = [];
  for (const base of partition.suffixes) {
    const filter = { type: 'equal', attribute: 'uid', value: Buffer.from(uid) } as const;
    const params = { ...EVERYTHING, base, scope: 'sub', filter, pageSize: 2 } as const;
    await partition.search(
      { ...params, deadline: performance.now() + 10_000, lookLimit: 10_000 },
      { entry: (hit) => void found.push(hit.dn.toString()), reference: () => undefined },
    );
  }
  if (found.length !== 1)
    throw new LdapError('noSuchObject', 'userIdentity does not name exactly one entry by its uid');
  return schema.parseDn(found[0]!);
}

/** Letters and digits that are not mistaken for each other: 16 of 56, about 93 bits. */
const LETTERS = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';

function generate(): Buffer {
  return Buffer.from(Array.from({ length: 16 }, () => LETTERS[randomInt(LETTERS.length)]!).join(''));
}
