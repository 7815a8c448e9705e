import { type Logger, pino } from 'pino';
import type { Config } from '../server/settings/index.js';
import { endWhenUncaught } from './last-resort.js';

const LEVELS: Readonly<Record<number, string>> = {
  10: 'TRACE',
  20: 'DEBUG',
  30: 'INFO',
  40: 'WARN',
  50: 'ERROR',
  60: 'FATAL',
};

/** A value in a line for people: on one line, and quoted where it has spaces. */
function show(value: unknown): string {
  if (typeof value === 'string') return /[\s"=]|^$/.test(value) ? JSON.stringify(value) : value;
  if (typeof value === 'object' && value !== null && 'message' in value) return JSON.stringify(value.message);
  return JSON.stringify(value);
}

/** `2026-03-01T12:00:00.000Z INFO  message key=value`, and the stack of an unexpected error below it. */
export function formatLine(json: string): string {
  const { time, level, msg, ...rest } = JSON.parse(json) as {
    time: number;
    level: number;
    msg?: string;
    err?: { stack?: string };
  };
  const fields = Object.entries(rest).map(([name, value]) => ` ${name}=${show(value)}`);
  const stack = rest.err?.stack === undefined ? '' : `\n${rest.err.stack}`;
  return `${new Date(time).toISOString()} ${(LEVELS[level] ?? String(level)).padEnd(5)} ${msg ?? ''}${fields.join('')}${stack}\n`;
}

/** What nobody caught is the last line of a log. */
export function logUncaught(log: Logger): void {
  endWhenUncaught((err) => log.fatal({ err }, 'an error that nobody caught ends the process'));
}

/** The server's log, on standard error; a worker's lines carry its number. */
export function createLog({ log }: Config, worker?: number): Logger {
  const options = { level: log.level, base: worker === undefined ? null : { worker } };
  if (log.format === 'json') return pino(options, process.stderr);
  return pino(options, { write: (json: string) => process.stderr.write(formatLine(json)) });
}
