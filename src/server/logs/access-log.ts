import { ResultCode } from '../../ldap/ldap-error.js';
import type { Scope } from '../../ldap/ldap-types.js';
import {
  type ConnectionEvent,
  type FinishedOperation,
  isUnindexed,
  type Observer,
} from '../observation/observation.js';
import { type RequestDescription, shownMessage } from '../observation/request-description.js';
import type { Config } from '../settings/index.js';
import { JsonLine } from './json-line.js';
import type { LineFile } from './line-file.js';

/** Most connections whose fields are kept. */
const MAX_CLIENTS = 20_000;

export const SUCCESS_CODES: ReadonlySet<number> = new Set([
  ResultCode.success,
  ResultCode.compareFalse,
  ResultCode.compareTrue,
  ResultCode.referral,
]);

const NAMES = {
  bind: 'BIND',
  unbind: 'UNBIND',
  search: 'SRCH',
  compare: 'CMP',
  add: 'ADD',
  modify: 'MOD',
  delete: 'DEL',
  modifyDN: 'MODRDN',
  abandon: 'ABANDON',
  extended: 'EXT',
} as const;

const NO_BYTES = new Uint8Array();
const SCOPES: Readonly<Record<Scope, number>> = { base: 0, one: 1, sub: 2, subordinate: 3 };

/** Writes one JSON line for each ended operation, with the keys of the JSON access log of 389 Directory Server. */
export class AccessLog implements Observer {
  readonly #file: Pick<LineFile, 'append'>;
  readonly #settings: Pick<Config['accessLog'], 'slowerThan' | 'sample'>;
  /** Undefined in a single process. */
  readonly #workerNumber: number | undefined;
  readonly #line = new JsonLine();
  /** The fields of each connection with its identity, which most of its operations share. */
  readonly #clients = new Map<number, { readonly boundAs: string; readonly fields: Uint8Array }>();
  #successCount = 0;
  #millisecond = Number.NaN;
  /** Beginning of the lines of this millisecond. */
  #lineHead = Buffer.alloc(0);

  constructor(
    file: Pick<LineFile, 'append'>,
    settings: Pick<Config['accessLog'], 'slowerThan' | 'sample'>,
    workerNumber: number | undefined,
  ) {
    this.#file = file;
    this.#settings = settings;
    this.#workerNumber = workerNumber;
  }

  onOperation(operation: FinishedOperation): void {
    const { op, result, waitMs, workMs, isAbandoned, isEncrypted } = operation;
    if (SUCCESS_CODES.has(result.code) && !isAbandoned && !this.#isWanted(waitMs + workMs)) return;
    // Made first, since other fields are made with the same line.
    const clientFields = op === 'bind' ? undefined : this.#clientFields(operation);
    const line = this.#begin(operation.endedAt, NAMES[op]);
    line.integer('op_id', operation.operationNumber);
    // The name in a bind request becomes the identity only when the bind succeeds.
    if (clientFields) line.encoded(clientFields);
    else this.#describeClient(line, operation);
    line.text('authzid', operation.proxiedDn);
    const description = operation.description();
    if (description) describe(line, op, description);
    line.integer('err', result.code);
    const message = shownMessage(result);
    if (message !== '') line.text('msg', message);
    if (result.matchedDN !== '') line.text('matched_dn', result.matchedDN);
    line.text('reason', operation.bindFailure);
    if (op === 'search') {
      line.integer('nentries', operation.entryCount);
      line.integer('bytes', operation.sentBytes);
    }
    line.seconds('wtime', waitMs);
    line.seconds('optime', workMs);
    line.seconds('etime', waitMs + workMs);
    line.ascii(isEncrypted ? ',"tls":true' : ',"tls":false');
    const isSlow = operation.search !== undefined && isUnindexed(operation.search, operation.entryCount);
    if (isSlow || isAbandoned)
      line.list('notes', [...(isSlow ? ['unindexed'] : []), ...(isAbandoned ? ['abandoned'] : [])]);
    this.#end(line);
  }

  onConnection(event: ConnectionEvent): void {
    if (event.kind === 'closed') this.#clients.delete(event.connectionNumber);
    if (!this.#isWanted(0)) return;
    const line = this.#begin(Date.now(), event.kind === 'opened' ? 'CONNECTION' : 'DISCONNECT');
    this.#describeClient(line, event);
    if (event.localPort !== undefined) line.integer('server_port', event.localPort);
    line.ascii(`,"tls":${event.isEncrypted}`);
    this.#end(line);
  }

  #isWanted(durationMs: number): boolean {
    const { slowerThan, sample } = this.#settings;
    return durationMs >= slowerThan && this.#successCount++ % sample === 0;
  }

  #begin(now: number, operationName: string): JsonLine {
    if (now !== this.#millisecond) {
      this.#millisecond = now;
      this.#lineHead = Buffer.from(`{"local_time":"${new Date(now).toISOString()}","operation":"`);
    }
    const line = this.#line;
    line.begin(this.#lineHead);
    line.ascii(operationName);
    line.ascii('"');
    return line;
  }

  #end(line: JsonLine): void {
    line.ascii('}\n');
    this.#file.append(line.bytes);
  }

  #clientFields(operation: FinishedOperation): Uint8Array {
    const { connectionNumber, boundAs } = operation;
    const client = this.#clients.get(connectionNumber);
    if (client?.boundAs === boundAs) return client.fields;
    const line = this.#line;
    line.begin(NO_BYTES);
    this.#describeClient(line, operation);
    line.text('bind_dn', boundAs);
    const fields = new Uint8Array(line.bytes);
    // Operations may end after their connection.
    if (this.#clients.size >= MAX_CLIENTS) this.#clients.clear();
    this.#clients.set(connectionNumber, { boundAs, fields });
    return fields;
  }

  #describeClient(line: JsonLine, { connectionNumber, address }: FinishedOperation | ConnectionEvent): void {
    line.integer('conn_id', connectionNumber);
    if (this.#workerNumber !== undefined) line.integer('worker', this.#workerNumber);
    line.text('client_ip', address);
  }
}

/** Appends the fields of the request. */
function describe(line: JsonLine, op: FinishedOperation['op'], description: RequestDescription): void {
  const { target, scope, filter, attributes, changes, controls, method, abandonedId } = description;
  if (op === 'search') {
    line.text('base_dn', target);
    line.integer('scope', SCOPES[scope!]);
    line.text('filter', filter);
  } else {
    line.text(op === 'bind' ? 'bind_dn' : 'target_dn', target);
    if (op === 'bind') line.text('method', method === 'simple' ? 'simple' : 'sasl');
    if (op === 'bind' && method !== 'simple') line.text('mech', method);
    if (abandonedId !== undefined) line.integer('target_op', abandonedId);
    line.text('oid', description.oid);
    line.text('newrdn', description.newRdn);
    line.text('newsup', description.newSuperior);
  }
  line.list('attrs', attributes);
  line.list('mods', changes);
  if (!controls) return;
  line.list('request_controls', controls);
  const { identifier, sourceName, sourceAddress } = description.sessionTracking ?? {};
  line.text('sid', identifier);
  line.text('sid_name', sourceName);
  line.text('sid_ip', sourceAddress);
}
