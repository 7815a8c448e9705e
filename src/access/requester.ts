import { BlockList } from 'node:net';
import type { Dn } from '../schema/schema-types.js';
import type { Network, Who } from './rule.js';

/** Ways to bind: with the account's own password or with an application password. */
export const MECHANISMS = ['simple', 'application'] as const;
export type Mechanism = (typeof MECHANISMS)[number];

/** The identity and connection of a client: all inputs of a rule except the entry. */
export interface Requester {
  /** The bound user; undefined: anonymous. */
  readonly user: { readonly id: Buffer; readonly dn: Dn } | undefined;
  /** IP address of the client; undefined for a local socket. */
  readonly address: string | undefined;
  /** Strength of the cipher in bits; 256 for a local socket. */
  readonly strength: number;
  /** How the client has bound; undefined: not bound. */
  readonly mechanism: Mechanism | undefined;
  /** Whether nobody can eavesdrop on the connection: TLS or a local socket. */
  readonly confidential: boolean;
}

/** Whether the requester is a member of the group. Called for groups that rules name. */
export type IsMember = (group: Dn) => boolean;

/** The result of a `Who` clause for one requester. An `EntryTest` remains to be applied to each entry. */
export type Decision = boolean | EntryTest;

export interface EntryTest {
  /** Set if the entry must be the requester's own. Exactly one field of the test is set. */
  readonly self?: true;
  readonly attribute?: NonNullable<Who['attribute']>;
  readonly allTests?: readonly EntryTest[];
  readonly not?: EntryTest;
}

export function decide(who: Who, requester: Requester, inGroup: IsMember): Decision {
  const { user } = requester;
  if (who.anonymous && user) return false;
  if (who.users && !user) return false;
  if (who.dn && !(user && who.dn.some((dn) => dn.norm.equals(user.dn.norm)))) return false;
  if (who.subtree && !(user && who.subtree.some((dn) => isAtOrBelow(user.dn, dn)))) return false;
  if (who.network && !inNetworks(requester.address, who.network)) return false;
  if (who.strength !== undefined && requester.strength < who.strength) return false;
  if (who.mechanism && !(requester.mechanism !== undefined && who.mechanism.includes(requester.mechanism)))
    return false;
  if (who.group && !(user && who.group.some(inGroup))) return false;
  const entryTests: EntryTest[] = [];
  if (who.self) {
    if (!user) return false;
    entryTests.push({ self: true });
  }
  if (who.attribute) {
    if (!user) return false;
    entryTests.push({ attribute: who.attribute });
  }
  for (const not of who.not ?? []) {
    const innerDecision = decide(not, requester, inGroup);
    if (innerDecision === true) return false;
    if (innerDecision !== false) entryTests.push({ not: innerDecision });
  }
  return entryTests.length === 0 ? true : entryTests.length === 1 ? entryTests[0]! : { allTests: entryTests };
}

/** Whether `dn` equals `ancestor` or lies below it. */
export function isAtOrBelow(dn: Dn, ancestor: Dn): boolean {
  const depthBelow = dn.rdns.length - ancestor.rdns.length;
  return depthBelow >= 0 && ancestor.rdns.every((rdn, i) => rdn.norm.equals(dn.rdns[depthBelow + i]!.norm));
}

const blockLists = new WeakMap<Network, BlockList>();

/** Whether the address is in one of the networks. An undefined address (local socket) is in none. */
export function inNetworks(address: string | undefined, networks: readonly Network[]): boolean {
  if (address === undefined) return false;
  const mappedMatch = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  const plainAddress = (mappedMatch?.[1] ?? address).split('%', 1)[0]!;
  const family = plainAddress.includes(':') ? 'ipv6' : 'ipv4';
  return networks.some((network) => network.family === family && blockListOf(network).check(plainAddress, family));
}

function blockListOf(network: Network): BlockList {
  const cachedList = blockLists.get(network);
  if (cachedList) return cachedList;
  const list = new BlockList();
  list.addSubnet(network.address, network.prefix, network.family);
  blockLists.set(network, list);
  return list;
}
