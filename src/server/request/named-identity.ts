import { LdapError } from '../../ldap/ldap-error.js';
import { UNLIMITED_SEARCH } from '../../partition/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { viewerOf } from './access.js';
import type { Context } from './context.js';

/** Resolves an identity in a request: `dn:` with a DN, `u:` with a uid, or a DN alone. */
export async function namedIdentity(context: Context, identity: string): Promise<Dn> {
  const { schema } = context.services;
  if (/^u:/i.test(identity)) return findUser(context, identity.slice(2));
  return schema.parseDn(identity.replace(/^dn:/i, ''));
}

async function findUser(context: Context, uid: string): Promise<Dn> {
  const { partition, schema } = context.services;
  const viewer = viewerOf(context);
  const foundDns: string[] = [];
  for (const base of partition.suffixes) {
    const filter = { type: 'equal', attribute: 'uid', value: Buffer.from(uid) } as const;
    const params = { ...UNLIMITED_SEARCH, viewer, base, scope: 'sub', filter, pageSize: 2 } as const;
    await partition.search(
      { ...params, deadline: performance.now() + 10_000, lookLimit: 10_000 },
      { entry: (hit) => void foundDns.push(hit.dn.toString()), reference: () => undefined },
    );
  }
  if (foundDns.length !== 1)
    throw new LdapError('noSuchObject', `'u:${uid}' does not name exactly one entry by its uid`);
  return schema.parseDn(foundDns[0]!);
}
