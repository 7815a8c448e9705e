import { BlockList } from 'node:net';
import type { Dn } from '../schema/schema-types.js';
import type { Network, Who } from './rule.js';

/** By which somebody binds: the own password, or an application password. */
export const MECHANISMS = ['simple', 'application'] as const;
export type Mechanism = (typeof MECHANISMS)[number];

/** Who asks, and by what way: all that rules look at but for the entry. */
export interface Asker {
  /** Undefined: anonymous. */
  readonly user: { readonly id: Buffer; readonly dn: Dn } | undefined;
  /** Address of the client; undefined: this machine, without one. */
  readonly address: string | undefined;
  /** Bits of the cipher; 256 on a socket of this machine. */
  readonly strength: number;
  /** By which the client has bound; undefined: it has not. */
  readonly mechanism: Mechanism | undefined;
  /** Nobody listens in: TLS, or a socket of this machine. */
  readonly confidential: boolean;
}

/** Whether the one who asks is in a group; asked of groups that rules name. */
export type InGroup = (group: Dn) => boolean;

/** What is left of `Who` when it is known who asks: yes, no, or it depends on the entry. */
export type Decided = boolean | EntryTest;

export interface EntryTest {
  /** One of what follows. */
  readonly self?: true;
  readonly attribute?: NonNullable<Who['attribute']>;
  readonly all?: readonly EntryTest[];
  readonly not?: EntryTest;
}

export function decide(who: Who, asker: Asker, inGroup: InGroup): Decided {
  const { user } = asker;
  if (who.anonymous && user) return false;
  if (who.users && !user) return false;
  if (who.dn && !(user && who.dn.some((dn) => dn.norm.equals(user.dn.norm)))) return false;
  if (who.subtree && !(user && who.subtree.some((dn) => isAtOrBelow(user.dn, dn)))) return false;
  if (who.network && !inNetworks(asker.address, who.network)) return false;
  if (who.strength !== undefined && asker.strength < who.strength) return false;
  if (who.mechanism && !(asker.mechanism !== undefined && who.mechanism.includes(asker.mechanism))) return false;
  if (who.group && !(user && who.group.some(inGroup))) return false;
  const rest: EntryTest[] = [];
  if (who.self) {
    if (!user) return false;
    rest.push({ self: true });
  }
  if (who.attribute) {
    if (!user) return false;
    rest.push({ attribute: who.attribute });
  }
  if (who.not) {
    const inner = decide(who.not, asker, inGroup);
    if (inner === true) return false;
    if (inner !== false) rest.push({ not: inner });
  }
  return rest.length === 0 ? true : rest.length === 1 ? rest[0]! : { all: rest };
}

/** Whether a DN is another, or lies below it. */
export function isAtOrBelow(dn: Dn, above: Dn): boolean {
  const from = dn.rdns.length - above.rdns.length;
  return from >= 0 && above.rdns.every((rdn, i) => rdn.norm.equals(dn.rdns[from + i]!.norm));
}

const lists = new WeakMap<Network, BlockList>();

/** Whether the address is in one of the networks; undefined, this machine without one, is in none. */
export function inNetworks(address: string | undefined, networks: readonly Network[]): boolean {
  if (address === undefined) return false;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  const plain = (mapped?.[1] ?? address).split('%', 1)[0]!;
  const family = plain.includes(':') ? 'ipv6' : 'ipv4';
  return networks.some((network) => network.family === family && listOf(network).check(plain, family));
}

function listOf(network: Network): BlockList {
  const known = lists.get(network);
  if (known) return known;
  const list = new BlockList();
  list.addSubnet(network.address, network.prefix, network.family);
  lists.set(network, list);
  return list;
}
