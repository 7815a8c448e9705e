import type { Job } from './job.js';
import type { JobRow } from './job-rows.js';
import { nextStart, OFF } from './schedule.js';

/** ISO 8601. */
export const formatTime = (time: number | undefined): string =>
  time === undefined ? 'never' : new Date(time).toISOString();

export function lastRunText({ state }: JobRow): string {
  const { started, ended, holder, outcome, result } = state;
  if (started === undefined) return 'never';
  if (holder !== undefined || ended === undefined) return `running since ${formatTime(started)} (${holder})`;
  return `${formatTime(started)}, ${((ended - started) / 1000).toFixed(1)} s, ${outcome}: ${result}`;
}

/** Describes the next start, by the schedule of this process. A time in the past means the next poll of a server. */
export function nextRunText({ schedule }: Job, { isDisabled, state }: JobRow): string {
  if (isDisabled) return 'disabled';
  if (schedule === OFF) return OFF;
  return formatTime(nextStart(schedule, state.started ?? state.since ?? Date.now()));
}
