import { appendFileSync, closeSync } from 'node:fs';
import { formatAuditComments } from '../server/logs/audit-comments.js';
import { AUDIT_MODE, openLog } from '../server/logs/line-file.js';
import type { Config } from '../server/settings/index.js';
import { printable } from '../server/words/printable.js';
import { CliError, describeError } from './exit.js';
import { answeredSockets } from './http/control-socket.js';
import type { Route } from './http/http-server.js';

/** Longest line of a record that a server writes, in characters. `formatAuditComments` makes shorter ones. */
const MAX_LINE = 10_000;
/** Time for which no server is asked after no server has written a record, in milliseconds. */
const PAUSE_MS = 1000;

type Report = (message: string) => unknown;
const reportOnStderr: Report = (message) => process.stderr.write(`rowan: ${message}\n`);

/**
 * Appends a record to the audit log, and returns whether there is one. `record`: lines of LDIF with a blank line at the
 * end. Calls `report` when the file cannot be written.
 */
export function appendAuditRecord({ output }: Config['auditLog'], record: string, report: Report): boolean {
  if (output === 'off') return false;
  try {
    const fd = openLog(output, AUDIT_MODE);
    try {
      appendFileSync(fd, formatAuditComments({ time: new Date().toISOString() }) + record);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    report(`the audit log cannot be written: ${describeError(error)}`);
  }
  return true;
}

/** Returns the route of the control socket for records of commands. Control characters of a record are escaped. */
export function auditRoute({ auditLog }: Config): Route {
  return {
    method: 'POST',
    path: '/audit',
    maxBodyBytes: 16 * 1024 ** 2,
    handle: ({ body = '' }) => {
      const lines = body.trimEnd().split('\n');
      const record = `${lines.map((line) => printable(line, MAX_LINE)).join('\n')}\n\n`;
      const isWritten = appendAuditRecord(auditLog, record, (message) => {
        throw new CliError(message);
      });
      return { body: isWritten ? 'written' : 'off' };
    },
  };
}

/**
 * The audit log of a command: that of a running server of the directory, which may have settings that the command does
 * not know. Where no server has one, it is the log of the command's own settings. Failures go to standard error.
 */
export class CommandAuditLog {
  readonly #config: Config;
  /** Time (`performance.now()`) until which no server is asked. */
  #pauseEnd = 0;

  constructor(config: Config) {
    this.#config = config;
  }

  /** Appends as `appendAuditRecord` does. Never rejects. */
  readonly append = async (record: string): Promise<void> => {
    if (performance.now() >= this.#pauseEnd && (await this.#handOver(record))) return;
    appendAuditRecord(this.#config.auditLog, record, reportOnStderr);
  };

  async #handOver(record: string): Promise<boolean> {
    const report = (error: unknown): void => {
      const problem = describeError(error);
      // A server of an older version has no such route, and nothing is wrong.
      if (!problem.startsWith('no such page')) reportOnStderr(`the audit record is not with the server: ${problem}`);
    };
    try {
      for (const socket of await answeredSockets(this.#config)) {
        // Loaded on demand, since most commands find no server.
        const { ControlClient } = await import('./control-client.js');
        const answer = new ControlClient(socket).request('POST', '/audit', record);
        if ((await answer.catch(report)) === 'written') return true;
      }
    } catch (error) {
      report(error);
    }
    this.#pauseEnd = performance.now() + PAUSE_MS;
    return false;
  }
}
