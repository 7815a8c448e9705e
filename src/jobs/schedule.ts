import { Cron } from 'croner';

/** What stands in place of a pattern where a job has no time. */
export const OFF = 'off';

/**
 * When a pattern of five fields (minute, hour, day of the month, month, day of the week) comes next after `after`;
 * milliseconds since 1970, in the server's time zone. Undefined: never.
 */
export function nextStart(schedule: string, after: number): number | undefined {
  if (schedule === OFF) return undefined;
  return new Cron(schedule, { mode: '5-part', paused: true }).nextRun(new Date(after))?.getTime();
}

const FIELDS = 5;

/** What is wrong with a schedule; undefined where nothing is. */
export function scheduleFault(schedule: string): string | undefined {
  if (schedule === OFF) return undefined;
  const fields = schedule.trim().split(/\s+/).length;
  if (fields !== FIELDS) return `it has ${fields === 1 ? 'one field' : `${fields} fields`}`;
  try {
    return nextStart(schedule, 0) === undefined ? 'that time never comes' : undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
