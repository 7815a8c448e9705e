import { type Logger, pino } from 'pino';
import { type Config, onSettingsChanged } from '../server/settings/index.js';
import { setUncaughtReporter } from './last-resort.js';

/** Formats a value on one line. Values with spaces are quoted. */
function formatValue(value: unknown): string {
  if (typeof value === 'string') return /[\s"=]|^$/.test(value) ? JSON.stringify(value) : value;
  if (typeof value === 'object' && value !== null && 'message' in value) return JSON.stringify(value.message);
  return JSON.stringify(value);
}

/** Formats `2026-03-01T12:00:00.000Z INFO  message key=value`. The stack of an unexpected error follows below. */
export function formatLine(json: string): string {
  const { time, level, msg, ...otherFields } = JSON.parse(json) as {
    time: number;
    level: number;
    msg?: string;
    err?: { stack?: string };
  };
  const fieldTexts = Object.entries(otherFields).map(([name, value]) => ` ${name}=${formatValue(value)}`);
  const stack = otherFields.err?.stack === undefined ? '' : `\n${otherFields.err.stack}`;
  return `${new Date(time).toISOString()} ${(pino.levels.labels[level] ?? String(level)).toUpperCase().padEnd(5)} ${msg ?? ''}${fieldTexts.join('')}${stack}\n`;
}

export function logUncaught(log: Logger): void {
  setUncaughtReporter((err) => log.fatal({ err }, 'an uncaught error ends the process'));
}

/** Creates the log of the server, on standard error. Lines of a worker carry its number. */
export function createLog(config: Config, worker?: number): Logger {
  const options = { level: config.log.level, base: worker === undefined ? null : { worker } };
  const write = (json: string) => process.stderr.write(config.log.format === 'json' ? json : formatLine(json));
  const log = pino(options, { write });
  onSettingsChanged(config, (values) => {
    log.level = config.log.level;
    log.debug({ settings: Object.keys(values) }, 'changed settings are in force here');
  });
  return log;
}
