import { printable } from '../../server/words/printable.js';

/** A line of the access log (docs/operations.md), parsed. */
export interface OperationRecord {
  readonly local_time: string;
  readonly operation: string;
  readonly [key: string]: unknown;
}

const SCOPES = ['base', 'one', 'sub', 'subordinate'];

/** Formats a line of the access log for people, with control characters escaped. */
export function formatRecord(record: OperationRecord): string {
  if (record.operation === 'DROPPED') return `… ${String(record.lines)} operations more than could be shown`;
  const text = (key: string, before = ''): string[] =>
    record[key] === undefined || record[key] === '' ? [] : [before + printable(String(record[key]))];
  const list = (key: string): string[] => (Array.isArray(record[key]) ? [printable(record[key].join(', '))] : []);
  const request = [
    record.local_time.slice(11, 23),
    ...text('worker', 'w'),
    `${String(record.conn_id)}${record.op_id === undefined ? '' : `/${String(record.op_id)}`}`,
    ...text('client_ip'),
    printable(record.operation),
    ...text('base_dn'),
    ...text('target_dn'),
    ...(typeof record.scope === 'number' ? [SCOPES[record.scope] ?? '?'] : []),
    ...text('filter'),
    ...text('oid'),
    ...text('newrdn', 'to '),
    ...list('mods'),
    ...text('bind_dn', record.operation === 'BIND' ? '' : 'by '),
  ];
  const result = [
    ...text('err'),
    ...text('msg'),
    ...text('reason'),
    ...(record.nentries === undefined ? [] : [`${String(record.nentries)} entries`]),
    ...(record.etime === undefined ? [] : [`${(Number(record.etime) * 1000).toFixed(1)} ms`]),
    ...list('notes'),
  ];
  return `${request.join(' ')}: ${result.join(', ')}`;
}
