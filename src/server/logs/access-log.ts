import { ResultCode } from '../../ldap/ldap-error.js';
import type { Scope } from '../../ldap/ldap-types.js';
import {
  type ConnectionEvent,
  type FinishedOperation,
  isUnindexed,
  type Observer,
} from '../observation/finished-operation.js';
import { shownMessage } from '../observation/hidden-values.js';
import type { RequestDescription } from '../observation/request-description.js';
import type { Config } from '../settings/index.js';
import type { LineFile } from './line-file.js';

/** Longest text of a field, in characters. */
const MAX_TEXT = 4096;
/** Longest form of a character in JSON, in characters. */
const MAX_ESCAPE = 6;
/** Most connections whose fields are kept. */
const MAX_CLIENTS = 20_000;
/** Characters that JSON allows unescaped although terminals or readers of lines treat them specially. */
const UNSAFE = /[\u007f-\u009f\u2028\u2029\p{Bidi_Control}]/gu;
/** Text that is the same in JSON. */
const PLAIN = /^[ !#-[\]-~]*$/;
/** Zeros before a fraction with so many digits. */
const ZEROS = ['', '00000', '0000', '000', '00', '0', ''];

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

const SCOPES: Readonly<Record<Scope, number>> = { base: 0, one: 1, sub: 2, subordinate: 3 };

/** Writes one JSON line for each ended operation, with the keys of the JSON access log of 389 Directory Server. */
export class AccessLog implements Observer {
  readonly #file: Pick<LineFile, 'append'>;
  readonly #settings: Pick<Config['accessLog'], 'slowerThan' | 'sample'>;
  /** The field with the number of this process; empty in a single process. */
  readonly #workerField: string;
  /** The fields of each connection with its identity, which most of its operations share. */
  readonly #clients = new Map<number, { readonly boundAs: string; readonly fields: string }>();
  #successCount = 0;
  #millisecond = 0;
  /** Beginning of the lines of this millisecond. */
  #lineBegin = '';

  constructor(
    file: Pick<LineFile, 'append'>,
    settings: Pick<Config['accessLog'], 'slowerThan' | 'sample'>,
    workerNumber: number | undefined,
  ) {
    this.#file = file;
    this.#settings = settings;
    this.#workerField = workerNumber === undefined ? '' : `,"worker":${workerNumber}`;
  }

  onOperation(operation: FinishedOperation): void {
    const { op, result, waitMs, workMs, isAbandoned, isEncrypted } = operation;
    if (SUCCESS_CODES.has(result.code) && !isAbandoned && !this.#isWanted(waitMs + workMs)) return;
    // The name in a bind request becomes the identity only when the bind succeeds.
    const client = op === 'bind' ? this.#describeClient(operation) : this.#clientFields(operation);
    let line = `${this.#begin(operation.endedAt)}${NAMES[op]}","op_id":${operation.operationNumber}${client}`;
    const description = operation.description();
    if (description) line += describe(op, description);
    line += `,"err":${result.code}`;
    const message = shownMessage(result);
    if (message !== '') line += text('msg', message);
    if (result.matchedDN !== '') line += text('matched_dn', result.matchedDN);
    line += text('reason', operation.bindFailure);
    if (op === 'search') line += `,"nentries":${operation.entryCount},"bytes":${operation.sentBytes}`;
    line += `,"wtime":${seconds(waitMs)},"optime":${seconds(workMs)},"etime":${seconds(waitMs + workMs)}`;
    line += `,"tls":${isEncrypted}${notes(operation)}}\n`;
    this.#file.append(line);
  }

  onConnection(event: ConnectionEvent): void {
    if (event.kind === 'closed') this.#clients.delete(event.connectionNumber);
    if (!this.#isWanted(0)) return;
    const name = event.kind === 'opened' ? 'CONNECTION' : 'DISCONNECT';
    const port = event.localPort === undefined ? '' : `,"server_port":${event.localPort}`;
    const line = `${this.#begin(Date.now())}${name}"${this.#describeClient(event)}${port},"tls":${event.isEncrypted}}\n`;
    this.#file.append(line);
  }

  #isWanted(durationMs: number): boolean {
    const { slowerThan, sample } = this.#settings;
    return durationMs >= slowerThan && this.#successCount++ % sample === 0;
  }

  #begin(now: number): string {
    if (now !== this.#millisecond) {
      this.#millisecond = now;
      this.#lineBegin = flatten(`{"local_time":"${new Date(now).toISOString()}","operation":"`);
    }
    return this.#lineBegin;
  }

  #clientFields(operation: FinishedOperation): string {
    const { connectionNumber, boundAs } = operation;
    let client = this.#clients.get(connectionNumber);
    if (client?.boundAs !== boundAs) {
      // Operations may end after their connection.
      if (this.#clients.size >= MAX_CLIENTS) this.#clients.clear();
      client = { boundAs, fields: flatten(this.#describeClient(operation) + text('bind_dn', boundAs)) };
      this.#clients.set(connectionNumber, client);
    }
    return client.fields;
  }

  #describeClient({ connectionNumber, address }: FinishedOperation | ConnectionEvent): string {
    return `,"conn_id":${connectionNumber}${this.#workerField}${text('client_ip', address)}`;
  }
}

/** Returns the text in one piece of memory, which is appended faster than a concatenated text. */
function flatten(value: string): string {
  return Buffer.from(value).toString();
}

/** Returns the fields of the request. */
function describe(op: FinishedOperation['op'], description: RequestDescription): string {
  const { target, scope, filter, attributes, changes, controls } = description;
  if (op === 'search') {
    const fields = `${text('base_dn', target)},"scope":${SCOPES[scope!]}${text('filter', filter)}`;
    return fields + list('attrs', attributes) + describeControls(description);
  }
  let fields = text(op === 'bind' ? 'bind_dn' : 'target_dn', target);
  if (op === 'bind') fields += `,"method":"${description.method === 'simple' ? 'simple' : 'sasl'}"`;
  if (op === 'bind' && description.method !== 'simple') fields += text('mech', description.method);
  if (description.abandonedId !== undefined) fields += `,"target_op":${description.abandonedId}`;
  fields += text('oid', description.oid) + text('newrdn', description.newRdn) + text('newsup', description.newSuperior);
  fields += list('attrs', attributes) + list('mods', changes);
  return controls ? fields + describeControls(description) : fields;
}

function describeControls({ controls, sessionTracking }: RequestDescription): string {
  if (!controls) return '';
  const { identifier, sourceName, sourceAddress } = sessionTracking ?? {};
  const session = text('sid', identifier) + text('sid_name', sourceName) + text('sid_ip', sourceAddress);
  return list('request_controls', controls) + session;
}

function notes(operation: FinishedOperation): string {
  const isSlow = operation.search !== undefined && isUnindexed(operation.search, operation.entryCount);
  if (!isSlow && !operation.isAbandoned) return '';
  return `,"notes":[${[isSlow ? '"unindexed"' : '', operation.isAbandoned ? '"abandoned"' : ''].filter(Boolean)}]`;
}

/** Formats milliseconds as seconds, to the microsecond. Integers are formatted faster than fractions. */
function seconds(milliseconds: number): string {
  const microseconds = Math.round(milliseconds * 1000);
  const fraction = microseconds % 1e6;
  return `${(microseconds - fraction) / 1e6}.${ZEROS[String(fraction).length]}${fraction}`;
}

/** Returns `,"key":"value"`; empty for an undefined value. */
function text(key: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${key}":${quote(value)}`;
}

function list(key: string, values: readonly string[] | undefined): string {
  if (values === undefined) return '';
  let items = '';
  for (const value of values) {
    const item = quote(value);
    const isFull = items.length + item.length > MAX_TEXT + MAX_ESCAPE;
    items += `${items === '' ? '' : ','}${isFull ? '"…"' : item}`;
    if (isFull) break;
  }
  return `,"${key}":[${items}]`;
}

/**
 * Returns the text as JSON in one line, in little more than `MAX_TEXT` characters. A text that was cut ends with the
 * mark `…`.
 */
function quote(value: string): string {
  if (value.length <= MAX_TEXT && PLAIN.test(value)) return `"${value}"`;
  const json = toJson(value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value);
  return json.length > MAX_TEXT + MAX_ESCAPE ? toJson(`${value.slice(0, MAX_TEXT / MAX_ESCAPE)}…`) : json;
}

function toJson(value: string): string {
  return JSON.stringify(value).replace(UNSAFE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
