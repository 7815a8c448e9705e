import type { Store } from '../store/contract.js';
import { Follower, type ReplicaStatus } from './follower.js';
import { lastEntry, timeOfEntry } from './history.js';
import type { FollowerStatus, Primary } from './primary.js';
import { fencedText, readState } from './state-file.js';

/** A primary in reach tells at least this often that it is alive, in ms. */
const HEARD_MS = 5000;

/** What a process knows of replicas. `follows`: how far this server follows a primary. */
export interface ReplicationAnswer {
  readonly replicas?: readonly FollowerStatus[];
  readonly follows?: ReplicaStatus | undefined;
}

/** Returns what this process knows. `primary`: absent if the process does not serve. */
export function ownReplication(primary?: Primary): ReplicationAnswer {
  return { replicas: primary?.followers() ?? [], follows: Follower.ofProcess?.status };
}

/** Returns how far the data of a replica is behind its primary, in seconds, by the clocks of both. */
export function secondsBehind({ url, asOf, seenAt }: ReplicaStatus): number {
  const heardAt = url !== undefined && Date.now() - seenAt < HEARD_MS ? seenAt : Date.now();
  return Math.max(0, heardAt - asOf) / 1000;
}

/** A replica, and how far it is behind this server. `seconds`: age of the first change that it lacks. */
export type FollowerReport = FollowerStatus & { readonly changes: number; readonly seconds: number };

/**
 * Returns the replicas that all processes know, in the order of their names. Of several that follow with one name, the
 * second is `NAME (2)`.
 */
export async function reportFollowers(store: Store, answers: readonly ReplicationAnswer[]): Promise<FollowerReport[]> {
  const known = answers.flatMap(({ replicas = [] }) => replicas).sort((a, b) => +b.isConnected - +a.isConnected);
  const byName = new Map<string, FollowerStatus>();
  for (const one of known) {
    let { name } = one;
    for (let i = 2; byName.has(name) && one.isConnected; i++) name = `${one.name} (${i})`;
    if (!byName.has(name)) byName.set(name, { ...one, name });
  }
  const last = await lastEntry(store);
  const reports = [...byName.values()].map(async (status) => {
    const changes = Number(last - BigInt(status.position));
    const lackedAt = changes > 0 ? await timeOfEntry(store, BigInt(status.position) + 1n) : Date.now();
    return { ...status, changes, seconds: Math.max(0, Date.now() - lackedAt) / 1000 };
  });
  return (await Promise.all(reports)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Describes the role of this server and how far each replica is, in lines for people. */
export async function describeReplication(store: Store, answers: readonly ReplicationAnswer[]): Promise<string[]> {
  const follows = answers.find((answer) => answer.follows)?.follows;
  const lines = follows ? describeReplica(follows) : [await describePrimary(store)];
  for (const { name, isConnected, seenAt, changes, seconds } of await reportFollowers(store, answers)) {
    const state = isConnected ? 'follows' : `was here until ${new Date(seenAt).toISOString()}`;
    lines.push(`replica ${name}: ${state}, ${changes} changes behind (${seconds.toFixed(1)} s)`);
  }
  return lines;
}

async function describePrimary(store: Store): Promise<string> {
  const state = store.folder === undefined ? undefined : readState(store.folder);
  const last = `last change ${await lastEntry(store)}`;
  if (state?.role !== 'fenced') return `primary, ${last}`;
  const since = state.newer?.since === undefined ? '' : ` since ${new Date(state.newer.since).toISOString()}`;
  return `fenced${since}, ${last}: ${fencedText(state)}`;
}

export function lossOf({ isOwn }: ReplicaStatus): string {
  return isOwn ? 'changes of the primary are not applied here' : 'the primary is not reached';
}

function describeReplica(status: ReplicaStatus): string[] {
  const { url, position, last, lostAt, seenAt, problem } = status;
  const behind = `${last - position} changes behind (${secondsBehind(status).toFixed(1)} s)`;
  if (url !== undefined) return [`replica of ${url}, change ${position}, ${behind}`];
  return [
    `replica, change ${position}, ${seenAt > 0 ? `at least ${behind}` : 'with no word of the primary since the start'}`,
    `${lossOf(status)} since ${new Date(lostAt ?? 0).toISOString()}: ${problem}`,
  ];
}
