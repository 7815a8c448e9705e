import { LdapError } from '../../ldap/ldap-error.js';
import type { Plan, PlanStep, Store } from '../../store/contract.js';
import { openMemoryStore } from '../../store/memory/index.js';
import { isGuardFailure } from '../../store/store-error.js';
import { TrialStore } from '../../store/trial.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { waitBeforeTry } from './attempt.js';
import type { CommittedNameChange, WriteContext } from './context.js';
import { mergeSteps } from './merge-steps.js';

/** In bytes. A transaction whose plan is longer is refused: an engine holds the plan of a commit in memory. */
const MAX_PLAN = 8 * 1024 * 1024;
/** Estimated bytes of a step without its values. */
const STEP_BYTES = 128;
/** Repeated transactions of a process run one at a time under this lock. No entry has an empty key. */
const LOCK = '';

/** A directory over a trial store. */
interface Trial {
  readonly context: WriteContext;
  close(): Promise<void>;
}

/** What the writes of a transaction have done on their trial directory. */
interface TrialWrites {
  readonly steps: PlanStep[];
  readonly nameChanges: CommittedNameChange[];
  byteCount: number;
}

/**
 * Runs `work` on a trial directory and commits the plans of its writes as one plan, in order, with all their guards.
 * Begins anew, with a trial directory of the current state, when a guard of that plan fails. Nothing is changed if
 * `work` rejects.
 */
export async function runTransaction<D extends Trial, T>(
  context: WriteContext,
  openTrial: (store: Store) => Promise<D>,
  work: (trial: D) => Promise<T>,
): Promise<T> {
  let isLocked = false;
  try {
    for (let tries = 1; ; tries++) {
      try {
        const writes: TrialWrites = { steps: [], nameChanges: [], byteCount: 0 };
        const result = await runTrial(context.store, writes, openTrial, work);
        await commit(context, writes);
        return result;
      } catch (error) {
        if (!isGuardFailure(error) || tries === MAX_TRIES) throw error;
      }
      if (!isLocked) await context.locks.acquire(LOCK);
      isLocked = true;
      await waitBeforeTry(tries);
      context.store.renewReads?.();
      await context.shared.refresh();
    }
  } finally {
    if (isLocked) context.locks.release(LOCK);
  }
}

async function runTrial<D extends Trial, T>(
  base: Store,
  writes: TrialWrites,
  openTrial: (store: Store) => Promise<D>,
  work: (trial: D) => Promise<T>,
): Promise<T> {
  const store = await TrialStore.over(base, openMemoryStore());
  store.onCommitted = (plan) => record(writes, plan);
  const trial = await openTrial(store);
  // References follow changed names after the transaction.
  trial.context.references.onNameChanged = (change) => void writes.nameChanges.push(change);
  try {
    return await work(trial);
  } finally {
    await trial.close();
  }
}

function record(writes: TrialWrites, { steps }: Plan): void {
  for (const step of steps) {
    const cells = 'append' in step ? step.append : (step.put ?? []);
    writes.byteCount += cells.reduce((sum, { value }) => sum + value.length, STEP_BYTES);
    writes.steps.push(step);
  }
  if (writes.byteCount <= MAX_PLAN) return;
  throw new LdapError('unwillingToPerform', `the transaction changes more than ${MAX_PLAN} stored bytes; divide it`);
}

async function commit({ store, shared, references, onCommit }: WriteContext, writes: TrialWrites): Promise<void> {
  if (writes.steps.length === 0) return;
  const steps = mergeSteps(writes.steps);
  // The last step is behind all guards.
  await store.commit({ steps, decisive: steps.length - 1 });
  shared.expire();
  onCommit?.();
  for (const change of writes.nameChanges) references.onNameChanged(change);
}
