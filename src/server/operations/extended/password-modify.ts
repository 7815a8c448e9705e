import { randomInt } from 'node:crypto';
import { LdapError } from '../../../ldap/error.js';
import {
  decodePasswordModify,
  encodeGeneratedPassword,
  type PasswordModify,
} from '../../../protocol/extended/password-modify.js';
import type { ExtendedRequest } from '../../../protocol/messages.js';
import type { Dn } from '../../../schema/types.js';
import { actorOf, isOwn, requireAdmin, requireBound, requireConfidential, VIEW } from '../../access.js';
import type { Context } from '../../context.js';
import { type Outcome, SUCCESS } from '../../outcome.js';
import { renew } from '../../validity.js';

/** RFC 3062. Users change their own password, the administrator anybody's; an old password that is given must be right. */
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
  if (asked.oldPassword) await requireOld(context, asked.oldPassword, [await partition.adminPassword()]);
  await partition.setAdminPassword(await passwords.hash(clear));
  await renew(services, session);
}

/** The old values go and the new one comes in one change; somebody else's change in between makes it fail, not vanish. */
async function changeUser(context: Context, dn: Dn, asked: PasswordModify, clear: Buffer): Promise<void> {
  const { services, session, controls } = context;
  const { partition, passwords } = services;
  const found = await partition.findRow(dn);
  const own = isOwn(session, found?.id);
  if (!own) requireAdmin(session, 'change the password of another');
  if (!found) throw new LdapError('noSuchObject', `there is no entry '${dn.text}'`);
  const stored = services.credentials.ofRow(found.row).passwords.map((value) => Buffer.from(value));
  const old = asked.oldPassword ? [await requireOld(context, asked.oldPassword, stored)] : stored;
  const type = 'userPassword';
  const value = await passwords.hash(clear);
  const add = { operation: 'add', attribute: { type, values: [value] } } as const;
  const changes = old.length > 0 ? [{ operation: 'delete', attribute: { type, values: old } } as const, add] : [add];
  await partition.modify(dn, changes, actorOf(session), { manageDsaIT: controls.manageDsaIT });
  if (own) await renew(services, session);
}

/** The stored value that the old password verifies against; it is the one that is replaced. */
async function requireOld({ services }: Context, clear: Buffer, stored: readonly Buffer[]): Promise<Buffer> {
  const matched = await services.passwords.matching(clear, stored);
  if (!matched) throw new LdapError('invalidCredentials', 'the old password is wrong');
  return matched;
}

/** Whose password: a DN, `dn:` and a DN, `u:` and a uid, or nothing for the bound identity. */
async function subject(context: Context, identity: string | undefined): Promise<Dn> {
  const { services, session } = context;
  if (identity === undefined || identity === '') return services.schema.parseDn(session.dn);
  if (/^u:/i.test(identity)) return findUser(context, identity.slice(2));
  return services.schema.parseDn(identity.replace(/^dn:/i, ''));
}

async function findUser({ services }: Context, uid: string): Promise<Dn> {
  const { partition, schema } = services;
  const found: string[] = [];
  for (const base of partition.suffixes) {
    const filter = { type: 'equal', attribute: 'uid', value: Buffer.from(uid) } as const;
    const params = { base, scope: 'sub', deref: 'never', filter, view: VIEW, manageDsaIT: true, sizeLimit: 0 } as const;
    await partition.search(
      { ...params, deadline: Date.now() + 10_000, lookLimit: 10_000, pageSize: 2 },
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
