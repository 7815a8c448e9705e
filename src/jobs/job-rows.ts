import type { Guard, PlanStep, Reader, RowStep } from '../store/contract.js';
import { batchesOf } from '../store/maybe.js';
import { cellCounter, cellValue } from '../store/row.js';
import { parseStoredJson } from '../store/store-error.js';

/** Table `meta` holds one row for each job (docs/formats/tables.md). */
const TABLE = 'meta';
const PREFIX = 'job,';
const FAMILY = 0;
const columnOf = (qualifier: string) => ({ family: FAMILY, qualifier: Buffer.from(qualifier) });
/** Counts how often a process has taken the job. */
const TERM = columnOf('term');
/** Counts the heartbeats of holders. */
const BEAT = columnOf('beat');
const STATE = columnOf('state');
const DISABLED = columnOf('disabled');

export type JobOutcome = 'done' | 'failed' | 'stopped';

/** The state of a job, stored as JSON. Times are milliseconds since 1970. */
export interface JobState {
  /** The process that runs the job, as `HOST:PID`. Absent while no process runs it. */
  readonly holder?: string;
  readonly started?: number;
  /** End of the last run. Absent while it runs. */
  readonly ended?: number;
  readonly outcome?: JobOutcome;
  /** Report of the last run, or the reason of its failure. */
  readonly result?: string;
  /** Next start, by the schedule of the process that ran the job last. */
  readonly next?: number;
  /** When a server first knew the job. The first start is computed from this time. */
  readonly since?: number;
}

export interface JobRow {
  readonly name: string;
  readonly term: bigint;
  readonly beatCount: bigint;
  readonly isDisabled: boolean;
  readonly state: JobState;
}

const jobKey = (name: string): Buffer => Buffer.from(PREFIX + name);

export async function readJob(reader: Reader, name: string): Promise<JobRow> {
  return toJob(name, await reader.get(TABLE, jobKey(name)));
}

/** Returns all jobs that the directory has rows of, by name. */
export async function readJobs(reader: Reader): Promise<JobRow[]> {
  const jobs: JobRow[] = [];
  const endKey = Buffer.from(PREFIX);
  endKey[endKey.length - 1]!++;
  for await (const { keys, rows } of batchesOf(reader.scan(TABLE, { from: Buffer.from(PREFIX), to: endKey })))
    for (const [i, key] of keys.entries()) jobs.push(toJob(key.toString().slice(PREFIX.length), rows[i]));
  return jobs;
}

function toJob(name: string, row: Buffer | undefined): JobRow {
  const stateBytes = row && cellValue(row, FAMILY, STATE.qualifier);
  return {
    name,
    term: cellCounter(row, FAMILY, TERM.qualifier),
    beatCount: cellCounter(row, FAMILY, BEAT.qualifier),
    isDisabled: row !== undefined && cellValue(row, FAMILY, DISABLED.qualifier) !== undefined,
    state: stateBytes ? parseStoredJson<JobState>(stateBytes, `row ${PREFIX}${name} in table meta`) : {},
  };
}

const stateCell = (state: JobState) => ({ ...STATE, value: Buffer.from(JSON.stringify(state)) });
const counterGuard = (counter: typeof TERM, value: bigint): Guard => ({ op: 'counterEquals', ...counter, value });
const jobStep = (name: string, actions: Omit<RowStep, 'table' | 'key'>): RowStep => ({
  table: TABLE,
  key: jobKey(name),
  ...actions,
});

/** Returns the step that takes the job. Its guards fail if a process has taken the job or written a heartbeat since. */
export function takeStep({ name, term, beatCount }: JobRow, state: JobState): RowStep {
  const add = [
    { ...TERM, by: 1n },
    { ...BEAT, by: 1n },
  ];
  const guards = [counterGuard(TERM, term), counterGuard(BEAT, beatCount)];
  return jobStep(name, { guards, add, put: [stateCell(state)] });
}

/** Guards that no process has taken the job since `term`. */
export function fenceStep(name: string, term: bigint): RowStep {
  return jobStep(name, { guards: [counterGuard(TERM, term)] });
}

/** Writes a heartbeat for the holder of `term`. */
export function beatStep(name: string, term: bigint): RowStep {
  return jobStep(name, { guards: [counterGuard(TERM, term)], add: [{ ...BEAT, by: 1n }] });
}

/** Stores the state of the job. The guard fails when another process has taken the job since `term`. */
export function stateStep(name: string, term: bigint, state: JobState): RowStep {
  return jobStep(name, { guards: [counterGuard(TERM, term)], add: [{ ...BEAT, by: 1n }], put: [stateCell(state)] });
}

export function disabledStep(name: string, isDisabled: boolean): PlanStep {
  return jobStep(name, isDisabled ? { put: [{ ...DISABLED, value: Buffer.from('1') }] } : { delete: [DISABLED] });
}
