import { readFileSync } from 'node:fs';
import { ExtendedOid } from '../protocol/oids.js';
import { LdapClient } from './ldap-client.js';
import { encodePlain } from './plain.js';
import { type ReplicateRequest, replicaDn } from './primary.js';
import type { ReplicaState } from './state-file.js';
import { decodeMessage, type Message, type ServerState } from './wire.js';

/** How a replica reaches other servers. */
export type ReplicaAccess = Pick<ReplicaState, 'name' | 'passwordFile' | 'tlsCa'>;

type Question = Omit<ReplicateRequest, 'position'> & Partial<ReplicateRequest>;

/** Connects to a server, and binds as the replica. */
export function connectTo(url: string, { name, passwordFile, tlsCa }: ReplicaAccess): Promise<LdapClient> {
  const password = Buffer.from(readFileSync(passwordFile, 'utf8').replace(/\r?\n$/, ''));
  return LdapClient.connect({ url, bindDn: replicaDn(name), password, tlsCa });
}

/** Sends a request of a replica. Resolves when its last message is handled. */
export async function request(
  client: LdapClient,
  content: ReplicateRequest,
  onMessage: (message: Message) => Promise<void> | void,
): Promise<void> {
  const value = encodePlain(content);
  await client.require({ op: 'extended', oid: ExtendedOid.replicate, value }, [], async ({ response }) => {
    if (response.op === 'intermediate' && response.value) await onMessage(decodeMessage(response.value));
  });
}

/** Sends a request whose answer is the state of the server. */
export async function askState(client: LdapClient, content: Question): Promise<ServerState> {
  let state: ServerState | undefined;
  await request(client, { position: 0n, ...content }, (message) => {
    if (message.kind === 'state') state = message.state;
  });
  if (!state) throw new Error('the server does not say who it is; both need the same version of Rowan');
  return state;
}

/** Asks a server who it is, on a connection of its own. */
export async function ask(url: string, access: ReplicaAccess, content: Question): Promise<ServerState> {
  const client = await connectTo(url, access);
  try {
    return await askState(client, content);
  } finally {
    client.close();
  }
}

/** A server that a replica may follow. */
export interface Candidate {
  readonly url: string;
  readonly state: ServerState;
}

/** Asks all servers of a list. Returns those to follow, the best first: of the highest term, a primary, first named. */
export async function candidates(
  urls: readonly string[],
  access: ReplicaAccess,
  terms: ReplicateRequest['terms'],
): Promise<Candidate[]> {
  const answers = await Promise.allSettled(
    urls.map(async (url) => ({ url, state: await ask(url, access, { terms, ask: 'state' }) })),
  );
  const rank = ({ state }: Candidate): number => termOf(state) * 2 + (state.role === 'primary' ? 1 : 0);
  return answers
    .flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    .filter(({ state }) => state.role !== 'fenced')
    .sort((a, b) => rank(b) - rank(a));
}

export function termOf({ terms }: Pick<ServerState, 'terms'>): number {
  return terms.at(-1)?.term ?? 0;
}
