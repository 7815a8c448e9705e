import type { Command } from 'commander';
import type { Config } from '../server/settings/index.js';
import { appendAuditRecord } from './audit-record.js';
import { flagValues, loadConfig } from './config/index.js';
import { currentUser } from './current-user.js';
import { describeError } from './exit.js';

/** Commands that change no directory, or that leave the audit to the server which they are or ask. */
const UNAUDITED: ReadonlySet<string> = new Set([
  ...['serve', 'quickstart', 'export', 'check', 'warm', 'explain', 'config', 'tail', 'top', 'doctor'],
  ...['index list', 'index proposals', 'unique show', 'references show', 'number show', 'schema show', 'deleted list'],
  ...['config get', 'config set', 'config unset'],
  ...['jobs list', 'account show', 'account password list', 'hbase schema', 'hbase verify'],
  ...['access show', 'access diff', 'access history', 'access explain', 'access test', 'access from-slapd'],
]);

/** Writes a record into the audit log when a command that changes a directory begins, and a record when it ends. */
export class CommandAudit {
  /** Undefined: the command is not audited. */
  #settings: Config['auditLog'] | undefined;

  begin(command: Command): void {
    if (UNAUDITED.has(nameOf(command))) return;
    const file = command.getOptionValue('config') as string | undefined;
    this.#settings = loadConfig({ file, env: process.env, flags: flagValues(command) }).config.auditLog;
    this.#write('begins');
  }

  /** `error`: the reason of a failure. */
  end(error?: unknown): void {
    if (error !== undefined) this.#write(`failed: ${describeError(error)}`);
    else this.#write(process.exitCode ? `ended with exit code ${process.exitCode}` : 'done');
  }

  /** A record that cannot be written is reported, and stops no command. */
  #write(result: string): void {
    if (this.#settings === undefined) return;
    const words = process.argv.slice(2).map((word) => (/^[\w.,:=@/-]+$/.test(word) ? word : JSON.stringify(word)));
    const user = `${currentUser()}, pid ${process.pid}`;
    appendAuditRecord(this.#settings, { user, command: `rowan ${words.join(' ')}`, result }, (message) =>
      process.stderr.write(`rowan: ${message}\n`),
    );
  }
}

/** `index add` for `rowan index add`. */
function nameOf(command: Command): string {
  const parent = command.parent?.parent ? `${nameOf(command.parent)} ` : '';
  return parent + command.name();
}
