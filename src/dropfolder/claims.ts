import { randomBytes } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { exists, type Layout, renameIfPresent } from './layout.js';
import { type Claim, formatClaim, NO_CLAIMANT, newClaimant, newToken, parseClaim } from './names.js';

const HEARTBEAT_PREFIX = '.alive-';
/** Number of heartbeats that a claimant writes during one lease. */
const HEARTBEATS_PER_LEASE = 5;

/**
 * A file that this process has claimed by a rename into `processing`. If the process stops writing heartbeats for a
 * lease, another process may take the claim over.
 */
export interface ClaimedFile {
  readonly claim: Claim;
  readonly path: string;
  /** Whether the claim was taken over from another claimant. Otherwise it was made from a file of `target`. */
  readonly wasTakenOver: boolean;
}

/** The heartbeat file of a claimant, as this process has read it last. */
interface Heartbeat {
  /** Content of the heartbeat file; empty when the file is missing. */
  readonly stamp: string;
  /** Time (`performance.now()`) when this process first read `stamp`. */
  readonly sinceMs: number;
  /** Whether `stamp` has changed since this process began to read the file. */
  readonly hasChanged: boolean;
}

/** The claims in `processing` by the state of their claimants. */
export interface ClaimSurvey {
  /** Names of claims that may be taken over: the claimant is dead, or it is this process. */
  readonly availableNames: readonly string[];
  /** Number of claims of living claimants other than this process. */
  readonly heldCount: number;
  /** Whether this process has seen a new heartbeat of every claimant counted in `heldCount`. */
  readonly areAllAlive: boolean;
}

/**
 * Claims files. A claim is a file name in `processing`. A rename from `target` makes the claim, and only one process
 * can win a rename. A living claimant regularly writes a new number into its heartbeat file. When the number has not
 * changed for the time of a lease, by the clock of the observer, other processes may take the claims over. Clocks of
 * two machines are never compared. A living claimant that is taken for dead does no harm: the row of the file guards
 * every change.
 */
export class Claims {
  readonly #layout: Layout;
  readonly #leaseMs: number;
  readonly #claimant = newClaimant();
  /** The last heartbeats by claimant, without this process. */
  #heartbeats = new Map<string, Heartbeat>();
  #timer: NodeJS.Timeout | undefined;
  #heartbeatCount = 0;

  constructor(layout: Layout, leaseMs: number) {
    this.#layout = layout;
    this.#leaseMs = leaseMs;
  }

  /** Starts writing heartbeats. Does nothing when heartbeats are running already. */
  async start(): Promise<void> {
    if (this.#timer) return;
    await this.#writeHeartbeat();
    // A failed heartbeat is not reported here. If failures persist, another process takes the claims over, and the next
    // access to a file fails with an error that is reported.
    const intervalMs = this.#leaseMs / HEARTBEATS_PER_LEASE;
    this.#timer = setInterval(() => void this.#writeHeartbeat().catch(() => undefined), intervalMs);
    this.#timer.unref();
  }

  #writeHeartbeat(): Promise<void> {
    return writeFile(this.#heartbeatPath(this.#claimant), `${++this.#heartbeatCount}\n`);
  }

  #heartbeatPath(claimant: string): string {
    return this.#layout.path('processing', `${HEARTBEAT_PREFIX}${claimant}`);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await rm(this.#heartbeatPath(this.#claimant), { force: true });
  }

  /** Claims a file of `target` by a rename. Returns undefined when another process was faster. */
  claim(name: string): Promise<ClaimedFile | undefined> {
    return this.#renameClaim(this.#layout.path('target', name), { token: newToken(), isBegun: false, name }, false);
  }

  /** Takes over a claim by a rename. Returns undefined when another process was faster. */
  async takeOver(claimName: string): Promise<ClaimedFile | undefined> {
    const claim = parseClaim(claimName)!;
    const claimedFile = await this.#renameClaim(this.#layout.path('processing', claimName), claim, true);
    if (claimedFile) await this.#removeTemporaryFiles(claim.token);
    return claimedFile;
  }

  /** Marks the claim as begun: the file has a row. Returns undefined when another process has taken the claim. */
  markBegun({ claim, path, wasTakenOver }: ClaimedFile): Promise<ClaimedFile | undefined> {
    return this.#renameClaim(path, { ...claim, isBegun: true }, wasTakenOver);
  }

  /** Gives the claim up: renames it to one of `NO_CLAIMANT`, which any process may take over. */
  async release({ claim, path }: ClaimedFile): Promise<void> {
    await renameIfPresent(
      path,
      this.#layout.path('processing', formatClaim({ ...claim, claimant: NO_CLAIMANT, timeMs: Date.now() })),
    );
  }

  async #renameClaim(
    source: string,
    { token, isBegun, name }: Pick<Claim, 'token' | 'isBegun' | 'name'>,
    wasTakenOver: boolean,
  ): Promise<ClaimedFile | undefined> {
    const claim = { token, isBegun, name, claimant: this.#claimant, timeMs: Date.now() };
    const path = this.#layout.path('processing', formatClaim(claim));
    return source === path || (await renameIfPresent(source, path)) ? { claim, path, wasTakenOver } : undefined;
  }

  isHeld({ path }: ClaimedFile): Promise<boolean> {
    return exists(path);
  }

  async isClaimed(token: string): Promise<boolean> {
    return (await readdir(this.#layout.path('processing'))).some((name) => parseClaim(name)?.token === token);
  }

  temporaryPath({ claim }: ClaimedFile): string {
    return this.#layout.path('processing', `.${claim.token}.${randomBytes(6).toString('hex')}`);
  }

  async #removeTemporaryFiles(token: string): Promise<void> {
    const names = await readdir(this.#layout.path('processing'));
    for (const name of names.filter((text) => text.startsWith(`.${token}.`)))
      await rm(this.#layout.path('processing', name), { force: true });
  }

  /** Returns the claims by the state of their claimants. Only calls over a lease show that a claimant is dead. */
  async survey(): Promise<ClaimSurvey> {
    const names = await readdir(this.#layout.path('processing'));
    const claimNames = names.filter((name) => parseClaim(name));
    const claimants = new Set(claimNames.map((name) => parseClaim(name)!.claimant));
    for (const name of names) if (name.startsWith(HEARTBEAT_PREFIX)) claimants.add(name.slice(HEARTBEAT_PREFIX.length));
    for (const mine of [this.#claimant, NO_CLAIMANT]) claimants.delete(mine);
    const heartbeats = new Map<string, Heartbeat>();
    const deadClaimants = new Set<string>();
    for (const claimant of claimants) {
      const heartbeat = await this.#readHeartbeat(claimant);
      heartbeats.set(claimant, heartbeat);
      if (performance.now() - heartbeat.sinceMs >= this.#leaseMs) deadClaimants.add(claimant);
    }
    this.#heartbeats = heartbeats;
    const isAvailable = (name: string): boolean => {
      const { claimant } = parseClaim(name)!;
      return !claimants.has(claimant) || deadClaimants.has(claimant);
    };
    const heldNames = claimNames.filter((name) => !isAvailable(name));

    for (const claimant of deadClaimants) await rm(this.#heartbeatPath(claimant), { force: true });
    const areAllAlive = heldNames.every((name) => heartbeats.get(parseClaim(name)!.claimant)!.hasChanged);
    return { availableNames: claimNames.filter(isAvailable), heldCount: heldNames.length, areAllAlive };
  }

  async #readHeartbeat(claimant: string): Promise<Heartbeat> {
    // A claimant whose heartbeat cannot be read for a lease counts as dead.
    const stamp = await readFile(this.#heartbeatPath(claimant), 'latin1').catch(() => '');
    const previousHeartbeat = this.#heartbeats.get(claimant);
    if (previousHeartbeat?.stamp === stamp) return previousHeartbeat;
    return { stamp, sinceMs: performance.now(), hasChanged: previousHeartbeat !== undefined && stamp !== '' };
  }
}
