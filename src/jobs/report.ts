import type { Job } from './job.js';
import type { JobRow } from './job-rows.js';
import { nextStart, OFF } from './schedule.js';

/** ISO 8601 of milliseconds since 1970. */
export const timeText = (time: number | undefined): string =>
  time === undefined ? 'never' : new Date(time).toISOString();

/** When the job ran last, for how long, and what came of it. */
export function lastRun({ state }: JobRow): string {
  const { started, ended, holder, outcome, result } = state;
  if (started === undefined) return 'never';
  if (holder !== undefined || ended === undefined) return `running since ${timeText(started)} (${holder})`;
  return `${timeText(started)}, ${((ended - started) / 1000).toFixed(1)} s, ${outcome}: ${result}`;
}

/** When it runs next, by the schedule of this process; a time that has passed: as soon as a server looks. */
export function nextRun({ schedule }: Job, { disabled, state }: JobRow): string {
  if (disabled) return 'disabled';
  if (schedule === OFF) return OFF;
  return timeText(nextStart(schedule, state.started ?? state.since ?? Date.now()));
}
