import { isAtOrBelow } from '../../access/requester.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import { AccessLog, SUCCESS_CODES } from '../logs/access-log.js';
import type { FinishedOperation, Observer } from '../observation/finished-operation.js';
import type { OperationFilter, WatchedLines } from '../processes/watch.js';

/** Most lines, and most characters of lines, that wait for the watcher. */
const MAX_LINES = 10_000;
const MAX_CHARACTERS = 4 * 1024 * 1024;

/** Keeps the wanted operations as lines until the watcher asks. */
export class OperationLines implements Observer {
  readonly #filter: OperationFilter;
  readonly #base: Dn | undefined;
  readonly #schema: Schema;
  readonly #log: AccessLog;
  #lines: string[] = [];
  #characterCount = 0;
  #droppedCount = 0;

  constructor(filter: OperationFilter, schema: Schema, workerNumber: number | undefined) {
    this.#filter = { ...filter, who: filter.who?.toLowerCase() };
    this.#base = filter.base === undefined ? undefined : schema.parseDn(filter.base);
    this.#schema = schema;
    this.#log = new AccessLog(this, { slowerThan: 0, sample: 1 }, workerNumber);
  }

  onOperation(operation: FinishedOperation): void {
    if (!this.#isWanted(operation)) return;
    if (this.#lines.length >= MAX_LINES || this.#characterCount >= MAX_CHARACTERS) this.#droppedCount++;
    else this.#log.onOperation(operation);
  }

  append(bytes: Buffer): void {
    const line = bytes.toString();
    this.#characterCount += line.length;
    this.#lines.push(line);
  }

  #isWanted(operation: FinishedOperation): boolean {
    const { op, who, client, slowerThanMs, isFailed } = this.#filter;
    if (op !== undefined && op !== operation.op) return false;
    if (slowerThanMs !== undefined && operation.waitMs + operation.workMs < slowerThanMs) return false;
    if (isFailed && SUCCESS_CODES.has(operation.result.code) && !operation.isAbandoned) return false;
    if (client !== undefined && !operation.address?.startsWith(client)) return false;
    if (who === undefined && !this.#base) return true;
    const target = operation.description()?.target;
    const clientName = operation.op === 'bind' ? (target ?? '') : operation.boundAs;
    if (who !== undefined && !clientName.toLowerCase().includes(who)) return false;
    return !this.#base || (target !== undefined && this.#isBelowBase(target, this.#base));
  }

  #isBelowBase(target: string, base: Dn): boolean {
    try {
      return isAtOrBelow(this.#schema.parseDn(target), base);
    } catch (error) {
      if (error instanceof LdapError) return false;
      throw error;
    }
  }

  take(): WatchedLines {
    const taken = { lines: this.#lines, droppedCount: this.#droppedCount };
    this.#lines = [];
    this.#characterCount = this.#droppedCount = 0;
    return taken;
  }
}
