import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { latestCsn } from '../partition/feed/history.js';
import { csnMicros } from '../partition/model/csn.js';
import { hashPassword } from '../password/index.js';
import { finishGroup } from '../replica/applier.js';
import { ask, askState, connectTo, termOf } from '../replica/asking.js';
import { beginTerm, grant, isNotedFollows, noteFollows, readHistory } from '../replica/history.js';
import {
  fencedText,
  type ReplicaState,
  type Role,
  readState,
  roleOf,
  writeReplicaState,
} from '../replica/state-file.js';
import { hashPolicyOf } from '../server/passwords/hash-policy.js';
import type { Store } from '../store/contract.js';
import { isHBaseUrl } from '../store/hbase/settings.js';
import { CliError, describeError } from './exit.js';
import type { HttpRequest, Route } from './http/http-server.js';
import { openStore } from './open-directory.js';
import type { Settings } from './options.js';
import { type ReplicaRole, startReplica } from './replica-role.js';
import { generatePassword } from './secrets.js';

/** Time between two looks at the role in the folder, and between two tries to tell a former primary, in ms. */
const LOOK_MS = 500;
const TELL_MS = 3000;
/** A clock may be so much behind that of the former primary, in ms. */
const MAX_AHEAD_MS = 5000;
/** Time in which a replica has to get what the primary has when the primary holds writes, in ms. */
const EQUAL_MS = 5000;

/** The former primary of a planned hand-over, which follows afterwards. */
interface FormerPrimary {
  readonly url: string;
  readonly name: string;
  readonly passwordHash: Buffer;
}

/** Makes the folder of a replica, with which no process follows, that of the primary. Resolves with its new term. */
export async function promoteFolder({ store: folder, config }: Settings, former?: FormerPrimary): Promise<number> {
  const known = readState(folder);
  if (known?.role === 'primary') throw new CliError(`${folder} is the primary already`);
  const state: ReplicaState = known ?? { of: [], name: '', passwordFile: '' };
  if (state.copy) throw new CliError(`${folder} has no complete copy of the directory: it cannot be the primary`);
  const store = await openStore(folder, config, { create: false, anyRole: true });
  try {
    if (!known && !(await isNotedFollows(store))) throw new CliError(`${folder} is the primary already`);
    await finishGroup(store);
    // Only then may clients write: their changes are of the new term.
    const term = await beginTerm(store, state.newer?.term);
    if (former) await grant(store, former.name, former.passwordHash);
    const of = [...new Set([...state.of, ...(former ? [former.url] : [])])];
    writeReplicaState(folder, { ...state, of, role: 'primary', newer: undefined });
    await noteFollows(store, false);
    return term;
  } finally {
    await store.close();
  }
}

/** The server that has a role. */
interface RoleContext {
  readonly settings: Settings;
  readonly log: Logger;
  readonly store: Store;
  /** Begins upkeep, which writes, or ends it. */
  setUpkeep(isOn: boolean): Promise<void>;
}

/**
 * Keeps a serving process in the role that `replica.json` gives the folder: follows, tells former primaries of the new
 * term, or does nothing when fenced. Writes are decided by the file alone, in all processes (`writeRefusals`).
 */
export class RoleKeeper {
  readonly #server: RoleContext;
  readonly #ending = new AbortController();
  #role: Role | undefined;
  #replica: ReplicaRole | undefined;
  #telling = new AbortController();
  #lastChange: Promise<void> = Promise.resolve();
  #fail: (error: Error) => void = () => undefined;
  /** Resolves with the reason when the server cannot go on in its role. */
  readonly failed = new Promise<Error>((resolve) => {
    this.#fail = resolve;
  });

  /** `replica`: what follows already. */
  constructor(server: RoleContext, replica: ReplicaRole | undefined) {
    this.#server = server;
    if (replica) this.#setReplica(replica);
  }

  get replica(): ReplicaRole | undefined {
    return this.#replica;
  }

  /** Returns why the server is not ready; undefined: it is. */
  get fault(): string | undefined {
    const state = this.#state();
    return state?.role === 'fenced' ? fencedText(state) : undefined;
  }

  /** Takes the role of the folder, and follows its changes. */
  async start(): Promise<void> {
    await this.#change();
    void this.#watch();
  }

  async #watch(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      await delay(LOOK_MS, undefined, { signal: this.#ending.signal }).catch(() => undefined);
      await this.#change().catch((error: unknown) => this.#fail(error as Error));
    }
  }

  #state(): ReplicaState | undefined {
    return isHBaseUrl(this.#server.settings.store) ? undefined : readState(this.#server.settings.store);
  }

  /** Runs one change of role after another. */
  #change(work?: () => Promise<void>): Promise<void> {
    const change = this.#lastChange.then(work).then(() => this.#takeRole());
    this.#lastChange = change.catch(() => undefined);
    return change;
  }

  async #takeRole(): Promise<void> {
    const state = this.#state();
    const role = roleOf(state);
    if (this.#ending.signal.aborted || (role === this.#role && (role !== 'replica' || this.#replica))) return;
    this.#role = role;
    this.#telling.abort();
    await this.#server.setUpkeep(role === 'primary');
    if (role !== 'replica') await this.#stopFollowing();
    else if (!this.#replica)
      this.#setReplica(startReplica(this.#server.settings, this.#server.store, this.#server.log)!);
    if (role === 'fenced') this.#server.log.warn(fencedText(state!));
    if (role !== 'primary') return;
    this.#telling = new AbortController();
    if (state) void this.#tell(state, this.#telling.signal);
  }

  #setReplica(replica: ReplicaRole): void {
    this.#replica = replica;
    void replica.failed.then(this.#fail);
  }

  async #stopFollowing(): Promise<void> {
    const replica = this.#replica;
    this.#replica = undefined;
    await replica?.stop();
  }

  /** Tells each former primary of the newer term until it knows. */
  async #tell(state: ReplicaState, signal: AbortSignal): Promise<void> {
    const urls = advertisedUrls(this.#server.settings);
    const { terms } = await readHistory(this.#server.store);
    for (let left = [...state.of]; left.length > 0 && !signal.aborted; ) {
      for (const url of left) {
        const answer = await ask(url, state, { terms, ask: 'state', urls }).catch(() => undefined);
        if (!answer || (answer.role === 'primary' && termOf(answer) < termOf({ terms }))) continue;
        left = left.filter((one) => one !== url);
        if (answer.role !== 'primary') this.#server.log.info({ url }, 'the former primary knows of the new term');
        else if (termOf(answer) === termOf({ terms }) && answer.terms.at(-1)!.id !== terms.at(-1)!.id)
          this.#server.log.error(
            { url },
            'another primary of the same term, so that their changes part: stop one of the two, and let "rowan replica rejoin" turn it back',
          );
      }
      await delay(TELL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Makes this replica the primary of a new term. `from`: URL of the primary, which hands over and follows. */
  async promote(from?: string): Promise<string> {
    let term = 0;
    await this.#change(async () => {
      const former = from === undefined ? undefined : await this.#takeOver(from);
      await this.#stopFollowing();
      await this.#untilLater();
      term = await promoteFolder(this.#server.settings, former);
    }).catch((error: unknown) => {
      throw error instanceof CliError ? error : new CliError(describeError(error), { cause: error });
    });
    return `the primary of term ${term}\n`;
  }

  /** Waits until the clock of this machine is past the last entryCSN: all processes write later ones then. */
  async #untilLater(): Promise<void> {
    const aheadMs = csnMicros((await latestCsn(this.#server.store)) ?? '') / 1000 - Date.now();
    if (aheadMs > MAX_AHEAD_MS)
      throw new CliError('the clock is behind the last change: set it, or stop the server and promote again');
    await delay(Math.max(aheadMs + 1, 0));
  }

  /** Lets the primary hold its writes, waits until this replica has them all, and lets the primary follow. */
  async #takeOver(url: string): Promise<FormerPrimary> {
    const [state, replica] = [this.#state(), this.#replica];
    if (this.#server.settings.config.listen.includes(url))
      throw new CliError(`${url} is this server: give the URL of the primary`);
    if (!state || !replica) throw new CliError('this server is no replica: nothing can be handed over to it');
    const { url: followed, problem } = replica.follower.status;
    if (followed === undefined) throw new CliError(`this server does not follow the primary now: ${problem}`);
    const of = advertisedUrls(this.#server.settings);
    if (of.length === 0)
      throw new CliError('the former primary cannot follow: listen on ldaps:// with a host name, or on ldapi://');
    const name = `from-${url.toLowerCase().replaceAll(/^ldap[si]:|[^a-z0-9._-]/g, '')}`.slice(0, 63);
    const password = generatePassword();
    const tlsCa = state.tlsCa === undefined ? undefined : readFileSync(state.tlsCa, 'utf8');
    const passwordHash = await hashPassword(Buffer.from(password), hashPolicyOf(this.#server.settings.config));
    const client = await connectTo(url, state);
    try {
      const { last } = await askState(client, { terms: [], ask: 'hold' });
      const tooLong = delay(EQUAL_MS, 'late');
      if ((await Promise.race([replica.follower.applied(last), tooLong])) === 'late')
        throw new CliError(`this replica is too far behind ${url}, which stays the primary; try again later`);
      await askState(client, { terms: [], ask: 'follow', primary: { of, name, password, tlsCa } });
      return { url, name, passwordHash };
    } finally {
      client.close();
    }
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    this.#telling.abort();
    await this.#lastChange;
    await this.#stopFollowing();
  }
}

/** Returns the URLs of this server that others may follow it at. */
export function advertisedUrls({ config }: Settings): string[] {
  return config.listen.filter((url) => /^ldap(s|i):/.test(url) && !/^ldaps:\/\/(0\.0\.0\.0|\[::\]|:|$)/.test(url));
}

/** Returns the route of the control socket that promotes a served replica. `from`: URL of the present primary. */
export function promoteRoute(roles: RoleKeeper): Route {
  const handle = async ({ query }: HttpRequest) => ({ body: await roles.promote(query.get('from') ?? undefined) });
  return { method: 'POST', path: '/promote', handle };
}
