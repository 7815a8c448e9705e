import { ResultCode } from '../../ldap/ldap-error.js';
import type { FinishedOperation, Observer } from '../observation/observation.js';
import { shownMessage } from '../observation/request-description.js';
import type { Services } from '../services/services.js';
import type { Config } from '../settings/index.js';
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
    (file) => new AuditLog(file, auditLog, worker),
  );
  return async () => {
    await Promise.all(ends.map((end) => end()));
  };
}

const CHANGES: ReadonlySet<FinishedOperation['op']> = new Set(['add', 'modify', 'modifyDN', 'delete', 'extended']);

/** Writes an LDIF change record for each change that has succeeded, and comments for one that is refused. */
class AuditLog implements Observer {
  readonly #file: LineFile;
  readonly #settings: Pick<Config['auditLog'], 'refused'>;
  readonly #workerNumber: number | undefined;

  constructor(file: LineFile, settings: Pick<Config['auditLog'], 'refused'>, workerNumber: number | undefined) {
    this.#file = file;
    this.#settings = settings;
    this.#workerNumber = workerNumber;
  }

  onOperation(operation: FinishedOperation): void {
    const { code, isChanged } = operation.result;
    const isRefused = code !== ResultCode.success && !isChanged;
    if (isRefused && !this.#settings.refused) return;
    const change = isRefused ? describeRefusal(operation) : operation.changeText();
    if (change === undefined) return;
    const { endedAt, boundAs, proxiedDn, address, connectionNumber, operationNumber } = operation;
    const worker = this.#workerNumber === undefined ? '' : `, worker ${this.#workerNumber}`;
    const comments = formatAuditComments({
      time: new Date(endedAt).toISOString(),
      who: boundAs,
      ...(proxiedDn === undefined ? {} : { as: proxiedDn }),
      client: address ?? 'local socket',
      connection: `${connectionNumber}, operation ${operationNumber}${worker}`,
    });
    this.#file.append(Buffer.from(comments + change));
  }
}

/** Describes a refused change without values, as comments; undefined for an operation that changes nothing. */
function describeRefusal({ op, result, description }: FinishedOperation): string | undefined {
  const { target, newRdn, oid, changes, attributes } = description() ?? {};
  if (!CHANGES.has(op) || target === undefined) return undefined;
  const what = (changes ?? attributes ?? [newRdn ?? oid ?? '']).join(', ');
  const refused = `${result.code} ${shownMessage(result)}`;
  return `${formatAuditComments({ dn: target, changetype: op, what, refused })}\n`;
}
