import { LdapError } from '../ldap/error.js';
import type { Dn } from '../schema/types.js';
import type { Maybe, Reader } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import type { Area, Base } from './area.js';
import { attributeValues } from './entry.js';
import { OBJECT_CLASS_OID } from './indexes.js';
import {
  type Context,
  findEntry,
  type Located,
  referralTo,
  referralUrls,
  requireEntry,
  specialClass,
  tail,
} from './locate.js';
import { isWithin, makeNode, type Node, ROOT, type Specials } from './nodes.js';
import type { SearchContext } from './search.js';
import { equalityPrefix, indexTable, MASTER_TABLE, parentIdOf, UUID_BYTES } from './tables.js';
import type { SearchParams, SearchSink } from './types.js';

/** Aliases followed one after another before it is called a loop (survives CVE-2025-27497's kind). */
const MAX_ALIASES = 16;

const OBJECT_CLASS_TABLE = indexTable(OBJECT_CLASS_OID).name;

/** Index rows of the entries of an object class. */
function classPrefix(context: Context, name: string): Buffer | undefined {
  const norm = context.schema.attribute('objectClass')?.equality?.normalize(Buffer.from(name));
  return norm && equalityPrefix(norm);
}

/** Asks, once a tree version, whether there are aliases and referrals at all: most directories have none. */
export function specials(context: Context, reader: Reader): Maybe<Specials> {
  const { flags, era } = context.nodes;
  if (flags) return flags;
  const count = (name: string): Maybe<number> => {
    const prefix = classPrefix(context, name);
    return prefix ? reader.postingCount(OBJECT_CLASS_TABLE, prefix, 1) : 0;
  };
  const aliases = count('alias');
  const referrals = count('referral');
  const learn = (a: number, r: number): Specials => {
    const learnt = { aliases: a > 0, referrals: r > 0 };
    context.nodes.keepFlags(learnt, era);
    return learnt;
  };
  if (isPromise(aliases) || isPromise(referrals)) {
    return Promise.all([aliases, referrals]).then(([a, r]) => learn(a, r));
  }
  return learn(aliases, referrals);
}

/** The base of a search: its node, aliases followed if asked for; throws `noSuchObject`, `referral`, `aliasProblem`. */
export function resolveBase(context: SearchContext, params: SearchParams, flags: Specials): Maybe<Base> {
  const { nodes, shared } = context;
  if (params.base.rdns.length === 0) return { node: ROOT };
  const simple = !flags.aliases && !flags.referrals;
  if (simple && params.scope !== 'base') {
    return chain(nodes.byDn(params.base, 0, shared.suffixNorms), (node) =>
      node && node !== ROOT ? { node } : resolveSlowly(context, params, flags),
    );
  }
  if (!simple) return resolveSlowly(context, params, flags);
  return chain(
    findEntry(context, context.store, params.base, 'getHead'),
    (found) => found ?? resolveSlowly(context, params, flags),
  );
}

async function resolveSlowly(context: SearchContext, params: SearchParams, flags: Specials): Promise<Base> {
  const finding = params.deref === 'finding' || params.deref === 'always';
  if (finding && flags.aliases) return followPath(context, params.base, params.manageDsaIT, 0);
  return requireEntry(context, context.store, params.base, params.manageDsaIT);
}

/** Finds `dn` where any name on the way, or the entry itself, may be an alias (RFC 4511 §4.5.1.3 derefFindingBaseObj). */
async function followPath(context: SearchContext, dn: Dn, manageDsaIT: boolean, followed: number): Promise<Located> {
  if (followed > MAX_ALIASES)
    throw new LdapError('loopDetect', `more than ${MAX_ALIASES} aliases lead to '${dn.text.slice(0, 200)}'`);
  for (let from = dn.rdns.length - 1; from >= 0; from--) {
    const read = findEntry(context, context.store, tail(dn, from));
    const found = isPromise(read) ? await read : read;
    const target = found && aliasTarget(context, found.row);
    if (!target) continue;
    const rest = dn.rdns.slice(0, from).map((rdn) => rdn.text);
    const next = context.schema.parseDn([...rest, target].join(','));
    if (from > 0) return followPath(context, next, manageDsaIT, followed + 1);
    return orAliasProblem(found.node, followPath(context, next, manageDsaIT, followed + 1));
  }
  return requireEntry(context, context.store, dn, manageDsaIT);
}

/** DN that an alias entry stands for; undefined for any other entry. */
function aliasTarget(context: Context, row: Buffer): string | undefined {
  if (specialClass(context, row) !== 'alias') return undefined;
  const target = attributeValues(context, row, 'aliasedObjectName')[0];
  if (!target) throw new LdapError('aliasProblem', 'an alias names no entry');
  return target.toString();
}

/** An alias that names no entry is a problem of its own (RFC 4511 §4.1.9, aliasProblem). */
async function orAliasProblem(alias: Node, followed: Promise<Located>): Promise<Located> {
  try {
    return await followed;
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new LdapError('aliasProblem', 'the alias names an entry that does not exist', {
      matchedDN: alias.dn.toString(),
      cause: error,
    });
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof LdapError && (error.result === 'noSuchObject' || error.result === 'aliasProblem');
}

/** The areas, and those that aliases in them lead to. An alias whose entry is gone leads nowhere. */
export async function aliasTargets(context: SearchContext, reader: Reader, areas: readonly Area[]): Promise<Area[]> {
  const all = [...areas];
  for (let i = 0; i < all.length; i++) {
    if (all.length > 10_000)
      throw new LdapError('adminLimitExceeded', 'the search leads through more than 10,000 aliases');
    const area = all[i]!;
    if (area.scope === 'base') continue;
    for (const alias of await entriesOfClass(context, reader, 'alias', area)) {
      const target = await followAlias(context, alias);
      if (!target) continue;
      const scope = area.scope === 'one' ? 'base' : 'sub';
      const known = all.some(
        (a) =>
          (a.scope === scope || a.scope === 'sub') &&
          (a.scope === 'base' ? a.node.id.equals(target.id) : isWithin(target, a.node)),
      );
      if (!known) all.push({ node: target, scope });
    }
  }
  return all;
}

async function followAlias(context: SearchContext, alias: Located): Promise<Node | undefined> {
  try {
    const target = context.schema.parseDn(aliasTarget(context, alias.row)!);
    return (await followPath(context, target, true, 1)).node;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Entries of a class that lie in an area, the base entry itself not. */
async function entriesOfClass(context: Context, reader: Reader, name: string, area: Area): Promise<Located[]> {
  const prefix = classPrefix(context, name);
  const found: Located[] = [];
  if (!prefix) return found;
  const read = reader.postings(OBJECT_CLASS_TABLE, prefix, 100_000);
  const ids = isPromise(read) ? await read : read;
  for (let at = 0; at < ids.length; at += UUID_BYTES) {
    const id = ids.subarray(at, at + UUID_BYTES);
    const got = reader.get(MASTER_TABLE.name, id);
    const row = isPromise(got) ? await got : got;
    if (!row || id.equals(area.node.id)) continue;
    const above = context.nodes.byId(Buffer.from(parentIdOf(row)));
    const parent = isPromise(above) ? await above : above;
    if (!parent) continue;
    const inside = area.scope === 'one' ? parent.id.equals(area.node.id) : isWithin(parent, area.node);
    if (inside) found.push({ node: makeNode(Buffer.from(id), row, parent), row });
  }
  return found;
}

/** Continuation references for the referral objects in the areas (RFC 3296 §5.4, RFC 4511 §4.5.3). Resolves with whether there were any. */
export async function emitReferences(
  context: SearchContext,
  reader: Reader,
  areas: readonly Area[],
  sink: SearchSink,
): Promise<boolean> {
  let gave = false;
  for (const area of areas) {
    if (area.scope === 'base') continue;
    const scope = area.scope === 'one' ? 'base' : 'sub';
    for (const { node, row } of await entriesOfClass(context, reader, 'referral', area)) {
      const urls = referralUrls(context, row).map((url) => referralTo(url, [], node.dn.toString(), scope));
      if (urls.length === 0) continue;
      gave = true;
      const done = sink.reference(urls);
      if (isPromise(done)) await done;
    }
  }
  return gave;
}
