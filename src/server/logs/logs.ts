import { ResultCode } from '../../ldap/ldap-error.js';
import type { FinishedOperation, Observer } from '../observation/finished-operation.js';
import type { Services } from '../services/services.js';
import { AccessLog } from './access-log.js';
import { formatAuditComments } from './audit-comments.js';
import { AUDIT_MODE, LineFile, type LineFileOptions } from './line-file.js';

/** Longest time that a line of the access log waits, in milliseconds. */
const ACCESS_DELAY_MS = 1000;

/**
 * Makes the logs that the settings ask for observe the operations of this process. Returns a function that ends the
 * logs, and resolves when their lines are written. Without logs there is no observer.
 */
export function startLogs({ config, log, statistics, observation, siblings }: Services): () => Promise<void> {
  const { accessLog, auditLog } = config;
  const ends: (() => void | Promise<void>)[] = [];
  const start = (options: Omit<LineFileOptions, 'log' | 'statistics'>, make: (file: LineFile) => Observer): void => {
    if (options.output === 'off') return;
    const file = new LineFile({ ...options, log, statistics });
    ends.push(observation.add(make(file)), () => file.close());
  };
  const worker = siblings?.workerNumber;
  start(
    { name: 'access log', output: accessLog.output, mode: 0o640, delayMs: ACCESS_DELAY_MS },
    (file) => new AccessLog(file, accessLog, worker),
  );
  start(
    { name: 'audit log', output: auditLog.output, mode: AUDIT_MODE, delayMs: 0 },
    (file) => new AuditLog(file, worker),
  );
  return async () => {
    await Promise.all(ends.map((end) => end()));
  };
}

/** Writes an LDIF change record, after comments with time and author, for each change that has succeeded. */
class AuditLog implements Observer {
  readonly #file: LineFile;
  readonly #workerNumber: number | undefined;

  constructor(file: LineFile, workerNumber: number | undefined) {
    this.#file = file;
    this.#workerNumber = workerNumber;
  }

  onOperation(operation: FinishedOperation): void {
    if (operation.result.code !== ResultCode.success) return;
    const change = operation.changeText();
    if (change === undefined) return;
    const { endedAt, boundAs, address, connectionNumber, operationNumber } = operation;
    const worker = this.#workerNumber === undefined ? '' : `, worker ${this.#workerNumber}`;
    const comments = formatAuditComments({
      time: new Date(endedAt).toISOString(),
      who: boundAs,
      client: address ?? 'local socket',
      connection: `${connectionNumber}, operation ${operationNumber}${worker}`,
    });
    this.#file.append(Buffer.from(comments + change));
  }
}
