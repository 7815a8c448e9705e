import { readFileSync } from 'node:fs';
import { ResultCode } from '../ldap/ldap-error.js';
import { ExtendedOid } from '../protocol/oids.js';
import { LdapClient, RefusedError } from './ldap-client.js';
import { type ReplicateRequest, replicaDn } from './primary.js';
import type { ReplicaState } from './state-file.js';
import { decodeMessage, encodePlain, type Message, type ServerState } from './wire.js';

/** How a replica reaches other servers. */
export type ReplicaAccess = Pick<ReplicaState, 'name' | 'passwordFile' | 'tlsCa'>;

type Question = Omit<ReplicateRequest, 'position'> & Partial<ReplicateRequest>;

/** Trying again does not help until somebody has changed something. */
export class AccessError extends Error {}

/** Connects to a server, and binds as the replica. Rejects with `AccessError` for mistakes in the access. */
export async function connectTo(url: string, { name, passwordFile, tlsCa }: ReplicaAccess): Promise<LdapClient> {
  try {
    const password = Buffer.from(readFileSync(passwordFile, 'utf8').replace(/\r?\n$/, ''));
    return await LdapClient.connect({ url, bindDn: replicaDn(name), password, tlsCa });
  } catch (error) {
    const { code, cause, message, syscall } = error as NodeJS.ErrnoException & { cause?: NodeJS.ErrnoException };
    if (error instanceof RefusedError && error.code === ResultCode.invalidCredentials)
      throw new AccessError(
        `${url} knows no replica ${name} with the password in ${passwordFile}; "rowan replica grant" there makes one`,
      );
    if (cause?.code === 'ERR_TLS_CERT_ALTNAME_INVALID')
      throw new AccessError(`${message} Name a host of the certificate in the URL`);
    if (/CERT|SIGNATURE/.test(cause?.code ?? ''))
      throw new AccessError(`${message}; --tls-ca names the file with the certificate of its authority`);
    throw syscall === 'open' ? new AccessError(`${tlsCa ?? passwordFile} cannot be read: ${code}`) : error;
  }
}

/** Rejects with `AccessError` if the access to a server of the list has a mistake. A server may be away. */
export async function requireAccess(urls: readonly string[], access: ReplicaAccess): Promise<void> {
  for (const url of urls) {
    const client = await connectTo(url, access).catch((error: unknown) => {
      if (error instanceof AccessError) throw error;
    });
    client?.close();
  }
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
