import { LdapError } from '../../ldap/ldap-error.js';
import { isPromise } from '../../store/maybe.js';
import { isGuardFailure } from '../../store/store-error.js';
import type { Actor, AttachedSteps, WriteRequest } from '../model/directory-types.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { errorAsSeen } from '../tree/sight.js';
import type { Change } from './change.js';
import type { Target, WriteContext } from './context.js';
import { type LargeValueWriter, newLarge } from './large-ahead.js';
import { NamesPending } from './names-pending.js';
import { planOf } from './plan.js';
import { applyRules, requireEntryAllowed, requireRequestAllowed } from './rules/apply.js';

/** One write of an entry. */
export interface Write<F extends Target> {
  /** Normal form of the entry's DN, or other bytes that identify the entry. Retries of one entry wait by name. */
  readonly name: Buffer;
  readonly asked: WriteRequest;
  /** Writes large values before the plan that makes them visible. */
  readonly largeWriter: LargeValueWriter;
  /** Further steps of the plan. */
  readonly also?: AttachedSteps | undefined;
  /** Reads the entry whose version the plan guards. */
  find(): Promise<F>;
  /** Returns the change of the entry. */
  change(found: F): Promise<Change>;
}

/**
 * Runs a write of one entry and returns the change. After the check of the request, the stages form an attempt, which
 * is repeated from the start when a guard of the plan fails.
 */
export async function write<F extends Target>(context: WriteContext, work: Write<F>): Promise<Change> {
  requireRequestAllowed(context, work.asked);
  for (let tries = 1; ; tries++) {
    try {
      return await writeNow(context, work);
    } catch (error) {
      if (!(error instanceof NamesPending) || tries === MAX_TRIES) throw error;
      await context.references.settle();
    }
  }
}

async function writeNow<F extends Target>(
  context: WriteContext,
  { name, asked, largeWriter, also, ...work }: Write<F>,
): Promise<Change> {
  return retrying(
    context,
    name,
    asked.actor,
    async () => {
      const found = await work.find();
      await requireEntryAllowed(context, asked, found);
      const change = await work.change(found);
      const added = applyRules(context, change);
      const steps = isPromise(added) ? await added : added;
      if (change.obstacle) throw change.obstacle;
      const large = change.after && newLarge(change.after);
      const written = large && (await largeWriter.write(change.id, large));
      await context.store.commit(planOf(context, [{ change, written }], also ? [...steps, ...also.steps] : steps));
      context.shared.expire();
      return change;
    },
    largeWriter,
    also,
  );
}

/** Runs an attempt under the current access rights. Errors do not reveal entries that the actor may not see. */
export async function asAllowed<T>(context: WriteContext, { access }: Actor, attempt: () => Promise<T>): Promise<T> {
  if (!access) return attempt();
  const renewed = access.renew();
  if (isPromise(renewed)) await renewed;
  try {
    return await attempt();
  } catch (error) {
    throw await errorAsSeen(context, context.store, access.viewer, error);
  }
}

/** Failed attempts after which a write releases the lock of its entry and queues for the lock again. */
const TRIES_PER_LOCK = 8;

/**
 * Runs the attempt of a write, which reads, checks and commits a plan. A failed guard means that another write was
 * faster: the attempt is repeated on the current state, under the lock of the entry. Large values
 * that were written ahead are removed when the write fails.
 */
async function retrying<T>(
  context: WriteContext,
  name: Buffer,
  actor: Actor,
  attempt: () => Promise<T>,
  largeWriter: LargeValueWriter,
  also: AttachedSteps | undefined,
): Promise<T> {
  let lockedKey: string | undefined;
  const lock = async (): Promise<void> => {
    lockedKey = name.toString('latin1');
    await context.locks.acquire(lockedKey);
  };
  try {
    // A new write of the entry waits behind the repeated ones.
    if (context.locks.isHeld(name)) await lock();
    for (let tries = 1; ; tries++) {
      const fresh = context.shared.fresh();
      if (isPromise(fresh)) await fresh;
      try {
        return await asAllowed(context, actor, attempt);
      } catch (error) {
        const isGuard = isGuardFailure(error);
        if (!isGuard || tries === MAX_TRIES) await largeWriter.tidy();
        if (!isGuard) throw error;
        if (tries === MAX_TRIES)
          throw new LdapError('busy', 'others keep changing this entry; try again', { cause: error });
        if (also) await unlessMissed(also, largeWriter);
      }
      if (lockedKey !== undefined && tries % TRIES_PER_LOCK === 0) {
        context.locks.release(lockedKey);
        lockedKey = undefined;
      }
      if (lockedKey === undefined) await lock();
      await pause(tries);
      const again = context.shared.refresh();
      if (isPromise(again)) await again;
      // Cached nodes may name a parent that has been removed. All nodes are dropped after the 2nd, 4th, 8th, … try.
      if (tries > 1 && (tries & (tries - 1)) === 0) context.nodes.clear();
    }
  } finally {
    if (lockedKey !== undefined) context.locks.release(lockedKey);
  }
}

/** Lets `also` end the write, after its steps were not committed. */
async function unlessMissed(also: AttachedSteps, largeWriter: LargeValueWriter): Promise<void> {
  try {
    await also.onGuardFailure();
  } catch (error) {
    await largeWriter.tidy();
    throw error;
  }
}

/** Waits before the next try: up to the third try for other events, then for a random time of at most 20 ms. */
function pause(tries: number): Promise<void> {
  return new Promise((resolve) => {
    if (tries <= 3) setImmediate(resolve);
    else setTimeout(resolve, Math.random() * Math.min(tries, 20));
  });
}
