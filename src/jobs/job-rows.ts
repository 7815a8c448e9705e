import { batchesOf } from '../store/batches.js';
import type { Guard, PlanStep, Reader, RowStep } from '../store/contract.js';
import { cellCounter, cellValue } from '../store/row.js';
import { StoreError } from '../store/store-error.js';

/** Rows of table `meta` that hold what is known of the jobs, one row a job (docs/formats/tables.md). */
const TABLE = 'meta';
const PREFIX = 'job,';
const F = 0;
const cell = (name: string) => ({ family: F, qualifier: Buffer.from(name) });
/** How often a process has taken the job. */
const TERM = cell('term');
/** How often a holder has shown that it lives. */
const BEAT = cell('beat');
const STATE = cell('state');
const DISABLED = cell('disabled');

export type JobOutcome = 'done' | 'failed' | 'stopped';

/** What is told of a job. Times are milliseconds since 1970. */
export interface JobState {
  /** The process that runs it, as `HOST:PID`; absent: nobody does. */
  readonly holder?: string;
  /** When the last run started. */
  readonly started?: number;
  /** When the last run ended; absent while it runs. */
  readonly ended?: number;
  readonly outcome?: JobOutcome;
  /** What the last run did, or why it failed. */
  readonly result?: string;
  /** When it starts next, by the schedule of the process that ran it last. */
  readonly next?: number;
  /** When a server first had the job; its first start is worked out from that. */
  readonly since?: number;
}

export interface JobRow {
  readonly name: string;
  readonly term: bigint;
  readonly beat: bigint;
  readonly disabled: boolean;
  readonly state: JobState;
}

const keyOf = (name: string): Buffer => Buffer.from(PREFIX + name);

export async function readJob(reader: Reader, name: string): Promise<JobRow> {
  return toJob(name, await reader.get(TABLE, keyOf(name)));
}

/** The jobs that the directory knows of, by name. */
export async function readJobs(reader: Reader): Promise<JobRow[]> {
  const found: JobRow[] = [];
  const to = Buffer.from(PREFIX);
  to[to.length - 1]!++;
  for await (const { keys, rows } of batchesOf(reader.scan(TABLE, { from: Buffer.from(PREFIX), to })))
    for (const [i, key] of keys.entries()) found.push(toJob(key.toString().slice(PREFIX.length), rows[i]));
  return found;
}

function toJob(name: string, row: Buffer | undefined): JobRow {
  const text = row && cellValue(row, F, STATE.qualifier)?.toString();
  return {
    name,
    term: cellCounter(row, F, TERM.qualifier),
    beat: cellCounter(row, F, BEAT.qualifier),
    disabled: row !== undefined && cellValue(row, F, DISABLED.qualifier) !== undefined,
    state: text === undefined ? {} : parseState(name, text),
  };
}

function parseState(name: string, text: string): JobState {
  try {
    return JSON.parse(text) as JobState;
  } catch (error) {
    throw new StoreError('corrupt', `the state of job '${name}' (table meta) is not JSON`, { cause: error });
  }
}

const stateCell = (state: JobState) => ({ ...STATE, value: Buffer.from(JSON.stringify(state)) });
const isAt = (counter: typeof TERM, value: bigint): Guard => ({ op: 'counterEquals', ...counter, value });
const step = (name: string, rest: Omit<RowStep, 'table' | 'key'>): RowStep => ({
  table: TABLE,
  key: keyOf(name),
  ...rest,
});

/** Takes the job, if nobody has taken it or shown that it lives since `row` was read. */
export function takeStep({ name, term, beat }: JobRow, state: JobState): RowStep {
  const add = [
    { ...TERM, by: 1n },
    { ...BEAT, by: 1n },
  ];
  return step(name, { guards: [isAt(TERM, term), isAt(BEAT, beat)], add, put: [stateCell(state)] });
}

/** Guards that nobody has taken the job since term `term`. */
export function fenceStep(name: string, term: bigint): RowStep {
  return step(name, { guards: [isAt(TERM, term)] });
}

/** Shows that the holder of the term lives. */
export function beatStep(name: string, term: bigint): RowStep {
  return step(name, { guards: [isAt(TERM, term)], add: [{ ...BEAT, by: 1n }] });
}

/** Puts what is told of the job, if nobody has taken it since the term. */
export function stateStep(name: string, term: bigint, state: JobState): RowStep {
  return step(name, { guards: [isAt(TERM, term)], add: [{ ...BEAT, by: 1n }], put: [stateCell(state)] });
}

export function disabledStep(name: string, disabled: boolean): PlanStep {
  return step(name, disabled ? { put: [{ ...DISABLED, value: Buffer.from('1') }] } : { delete: [DISABLED] });
}
