import { LdapError } from '../ldap/error.js';
import type { Maybe } from '../store/contract.js';
import { chain, isPromise } from '../store/maybe.js';
import { aliasTargets } from './aliases.js';
import { type Area, BATCH, choosePlan, parseResume, type Resume, SCAN_FACTOR, wholeTable } from './area.js';
import { requireBase, searchBase } from './base-search.js';
import { searchIndex } from './index-search.js';
import { doOrLeave } from './long-work.js';
import { rideAlong } from './passes.js';
import { type IndexPlan, planIndexes } from './plan.js';
import { resumeArea, scanArea } from './scan.js';
import type { Prepared } from './search.js';
import type { SearchRun } from './search-run.js';
import type { SearchOutcome } from './types.js';

type EarlyPlan = Prepared['plan'];

/** Searches what the scope covers below the base, by the cheapest way: the base entry, an index or a scan. */
export function searchFrom(run: SearchRun, { base, plan }: Pick<Prepared, 'base' | 'plan'>): Maybe<SearchOutcome> {
  const { params, flags } = run;
  const area = { node: base.node, row: base.row, scope: params.scope };
  if (params.resume || flags.aliases || flags.referrals) return searchAreas(run, area, plan);
  run.areas = [area];
  return chain(searchArea(run, area, undefined, plan), () => end(run, area));
}

/** With the areas that aliases lead to, one after another; an entry that lies in an earlier one is not given again. */
async function searchAreas(run: SearchRun, first: Area, early: EarlyPlan): Promise<SearchOutcome> {
  const { context, params } = run;
  run.areas = run.followsAliases ? await aliasTargets(context, run.reader, [first]) : [first];
  const resume = params.resume && parseResume(params.resume);
  if (run.givesReferences && !resume) await run.giveReferences();
  for (run.area = resume?.area ?? 0; run.area < run.areas.length && !run.ended; run.area++) {
    const at = resume?.area === run.area ? resume : undefined;
    const done = searchArea(run, run.areas[run.area]!, at, run.area === 0 ? early : undefined);
    if (isPromise(done)) await done;
  }
  return end(run, first);
}

function end(run: SearchRun, first: Area): Maybe<SearchOutcome> {
  const outcome = { entries: run.entries, looked: run.looked, resume: run.resume };
  if (run.entries > 0 || run.params.resume) return outcome;
  return chain(requireBase(run, first.node), () => outcome);
}

/** `early`: an index plan that was asked for before. */
function searchArea(run: SearchRun, area: Area, resume: Resume | undefined, early: EarlyPlan): Maybe<void> {
  if (area.scope === 'base') return resume ? undefined : searchBase(run, area);
  if (resume)
    return resume.kind === 'i'
      ? resumeIndex(run, resume.key)
      : run.withSnapshot(async () => resumeArea(run, area, resume.kind as 's' | 't', resume.key));
  const plan = early ?? planIndexes(run.filter, run.context.shared.indexes, run.reader);
  return isPromise(plan) ? plan.then((p) => choose(run, area, p)) : choose(run, area, plan);
}

function choose(run: SearchRun, area: Area, plan: IndexPlan | undefined): Maybe<void> {
  // A handful of candidates is read within one turn, which is one state of the store already.
  if (plan && plan.count * SCAN_FACTOR <= BATCH) return searchIndex(run, plan);
  return chooseLong(run, area, plan);
}

async function chooseLong(run: SearchRun, area: Area, plan: IndexPlan | undefined): Promise<void> {
  if ((await choosePlan(run.reader, area, plan)) === 'scope') return scan(run, area);
  return doOrLeave(run, plan!.count, () => run.withSnapshot(async () => searchIndex(run, plan!)));
}

/** The first range together with other searches that look at it, the rest on the same state. */
async function scan(run: SearchRun, area: Area): Promise<void> {
  let release = (): void => {};
  try {
    await scanArea(run, area, wholeTable(area) ? 't' : 's', async (range, filter, kind) => {
      const ride = await rideAlong(run, range, filter, kind);
      release = ride.release;
      return ride.containers;
    });
  } finally {
    run.readFrom(run.context.store);
    release();
  }
}

/** Goes on behind the id `after`, where a page ended. */
async function resumeIndex(run: SearchRun, after: Buffer): Promise<void> {
  const planned = planIndexes(run.filter, run.context.shared.indexes, run.reader);
  const plan = isPromise(planned) ? await planned : planned;
  if (!plan)
    throw new LdapError(
      'unwillingToPerform',
      'the index that this paged search was using is gone; start the search again',
    );
  return run.withSnapshot(async () => searchIndex(run, plan, after));
}
