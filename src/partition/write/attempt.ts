import { LdapError } from '../../ldap/ldap-error.js';
import { utf8Bytes } from '../../ldap/text.js';
import { isPromise } from '../../store/maybe.js';
import { isGuardFailure, mayBeApplied } from '../../store/store-error.js';
import type { Actor, AttachedSteps, WriteObserver, WriteRequest, WrittenEntry } from '../model/directory-types.js';
import { detachedRow } from '../model/entry-cells.js';
import { presentRow } from '../model/present-row.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { errorAsSeen } from '../tree/locate.js';
import { noteMissing } from '../tree/missing-tables.js';
import { type Change, PendingNamesError, type Target, type WriteContext } from './context.js';
import { type LargeValueWriter, newLargeSources } from './large-ahead.js';
import { planOf } from './plan.js';
import { applyRules, requireEntryAllowed, requireRequestAllowed } from './rules/apply.js';

export interface Write<F extends Target> {
  /** Identifies the entry: normal form of its DN, or other bytes. Repeated writes of one entry wait for each other. */
  readonly lockKey: Buffer;
  readonly request: WriteRequest;
  /** Writes large values before the plan that makes them visible. */
  readonly largeWriter: LargeValueWriter;
  readonly attachedSteps?: AttachedSteps | undefined;
  readonly observer?: WriteObserver | undefined;
  /** Reads the entry. The plan guards its version. */
  find(): Promise<F>;
  change(found: F): Promise<Change>;
}

/**
 * Runs a write of one entry and returns the change. Checks the request, then runs an attempt: read, check, commit. The
 * attempt is repeated from its start when a guard of the plan fails.
 */
export async function write<F extends Target>(context: WriteContext, work: Write<F>): Promise<Change> {
  requireRequestAllowed(context, work.request);
  for (let tries = 1; ; tries++) {
    try {
      return await runAttempts(context, work);
    } catch (error) {
      if (tries === MAX_TRIES) throw error;
      if (error instanceof PendingNamesError) await context.references.settle();
      else if (!(await noteMissing(context, error)) && !(await mayBeFreed(context, error))) throw error;
    }
  }
}

/** Whether the write may succeed now, because entries of a tree delete had the name or value that it takes. */
async function mayBeFreed(context: WriteContext, error: unknown): Promise<boolean> {
  if (!(error instanceof LdapError)) return false;
  return (error.result === 'constraintViolation' || error.result === 'entryAlreadyExists') && context.finishTrees();
}

async function runAttempts<F extends Target>(
  context: WriteContext,
  { lockKey, request, largeWriter, attachedSteps, observer, ...work }: Write<F>,
): Promise<Change> {
  return retryAttempt(
    context,
    lockKey,
    request.actor,
    async () => {
      const target = await work.find();
      await requireEntryAllowed(context, request, target);
      // Had the observer read a later state than `find`, a guard of the plan would fail.
      if (observer && target.stored) await observer.onFound();
      const change = await work.change(target);
      try {
        const maybeSteps = change.detachment ?? applyRules(context, change);
        const steps = isPromise(maybeSteps) ? await maybeSteps : maybeSteps;
        if (change.obstacle) throw change.obstacle;
        if (observer) await observer.onAllowed(writtenEntry(context, change));
        const largeSources = change.after && newLargeSources(change.after);
        const writtenValues = largeSources && (await largeWriter.write(change.id, largeSources));
        await context.store.commit(
          planOf(context, [{ change, writtenValues }], attachedSteps ? [...steps, ...attachedSteps.steps] : steps),
        );
      } catch (error) {
        if (!mayBeApplied(error)) context.numbers.putBack(change);
        throw error;
      }
      context.shared.expire();
      context.onCommit?.();
      return change;
    },
    largeWriter,
    attachedSteps,
  );
}

function writtenEntry(
  context: WriteContext,
  { id, before, after, place, detachment }: Change,
): WrittenEntry | undefined {
  const { from, to } = place;
  if (!after || !to || detachment) return undefined;
  const row = presentRow(context, detachedRow(after));
  const former = before && { row: before.row, dn: utf8Bytes(from!.dn.toString()) };
  return { id, row, dn: utf8Bytes(to.dn.toString()), normRdn: to.normRdn, parent: to.parent!, former };
}

/** Runs an attempt with the current access rights. Its errors must not reveal entries that the actor may not see. */
export async function withRights<T>(context: WriteContext, { access }: Actor, attempt: () => Promise<T>): Promise<T> {
  if (!access) return attempt();
  const maybeRenewal = access.renew();
  if (isPromise(maybeRenewal)) await maybeRenewal;
  try {
    return await attempt();
  } catch (error) {
    throw await errorAsSeen(context, context.store, access.viewer, error);
  }
}

/** After this number of failed attempts, a write releases the lock of its entry and queues for it again. */
const TRIES_PER_LOCK = 8;

/**
 * Runs the attempt of a write. A failed guard means that another write was faster: the attempt is repeated on the
 * current state, under the lock of the entry. If the write fails, large values that were written ahead are removed.
 */
async function retryAttempt<T>(
  context: WriteContext,
  entryKey: Buffer,
  actor: Actor,
  attempt: () => Promise<T>,
  largeWriter: LargeValueWriter,
  attachedSteps: AttachedSteps | undefined,
): Promise<T> {
  let lockedKey: string | undefined;
  const lock = async (): Promise<void> => {
    lockedKey = entryKey.toString('latin1');
    await context.locks.acquire(lockedKey);
  };
  try {
    // A new write waits for repeated writes of the same entry.
    if (context.locks.isHeld(entryKey)) await lock();
    for (let tries = 1; ; tries++) {
      const maybeRefresh = context.shared.fresh();
      if (isPromise(maybeRefresh)) await maybeRefresh;
      try {
        return await withRights(context, actor, attempt);
      } catch (error) {
        const isGuardError = isGuardFailure(error);
        if (!isGuardError || tries === MAX_TRIES) await largeWriter.discardIfPossible();
        if (!isGuardError) throw error;
        if (tries === MAX_TRIES)
          throw new LdapError('busy', 'others keep changing what this write depends on; try again', { cause: error });
        if (attachedSteps) await handleGuardFailure(attachedSteps, largeWriter);
      }
      if (lockedKey !== undefined && tries % TRIES_PER_LOCK === 0) {
        context.locks.release(lockedKey);
        lockedKey = undefined;
      }
      if (lockedKey === undefined) await lock();
      await waitBeforeTry(tries);
      await context.shared.refresh();
      // A cached node may name a removed parent. Clear the cache after attempts 2, 4, 8, …
      if (tries > 1 && (tries & (tries - 1)) === 0) context.nodes.clear();
    }
  } finally {
    if (lockedKey !== undefined) context.locks.release(lockedKey);
  }
}

/** Reports a failed guard to the owner of the attached steps, who may end the write by throwing. */
async function handleGuardFailure(attachedSteps: AttachedSteps, largeWriter: LargeValueWriter): Promise<void> {
  try {
    await attachedSteps.onGuardFailure();
  } catch (error) {
    await largeWriter.discardIfPossible();
    throw error;
  }
}

/** Waits before the next attempt: for other events up to the third one, then for a random time of at most 20 ms. */
export function waitBeforeTry(tries: number): Promise<void> {
  return new Promise((resolve) => {
    if (tries <= 3) setImmediate(resolve);
    else setTimeout(resolve, Math.random() * Math.min(tries, 20));
  });
}
