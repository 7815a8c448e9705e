import { ResultCode } from '../../ldap/ldap-error.js';
import type { FinishedOperation, Observer } from '../observation/finished-operation.js';
import { formatAuditComments } from './audit-comments.js';
import type { LineFile } from './line-file.js';

/** Writes an LDIF change record, after comments with time and author, for each change that has succeeded. */
export class AuditLog implements Observer {
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
