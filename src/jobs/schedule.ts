import { Cron } from 'croner';

/** The schedule of a job that never starts by itself. */
export const OFF = 'off';

/**
 * Returns the first match of a cron pattern after `after`, in milliseconds since 1970. The five fields are minute,
 * hour, day of month, month and day of week, in the time zone of the server. Undefined: never.
 */
export function nextStart(schedule: string, afterMs: number): number | undefined {
  if (schedule === OFF) return undefined;
  return new Cron(schedule, { mode: '5-part', paused: true }).nextRun(new Date(afterMs))?.getTime();
}

const FIELDS = 5;

/** Returns the mistake in a schedule; undefined when it is valid. */
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
