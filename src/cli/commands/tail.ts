import { createInterface } from 'node:readline';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { OPS } from '../../server/processes/statistics.js';
import { printable } from '../../server/words/printable.js';
import { ControlClient, controlCommand } from '../control-client.js';
import { CliError } from '../exit.js';

const EXAMPLES = `
Examples:
  Each operation of the server on a data folder, as it ends:
    rowan tail --data data

  What fails, and what takes longer than 100 ms:
    rowan tail --data data --failed
    rowan tail --data data --slower-than 100

  Searches of one client below ou=people, for a program:
    rowan tail --data data --op search --client 10.0.0.7 --base ou=people,dc=example,dc=com --json

The lines are those of the access log, whether or not the server writes one.
`;

/** Options that are parameters of the request, by their names. */
const PARAMETERS = ['op', 'who', 'client', 'base', 'slowerThan', 'failed'];

function parseMilliseconds(text: string): number {
  if (!/^\d{1,9}(\.\d+)?$/.test(text)) throw new InvalidArgumentError('is not a number of milliseconds');
  return Number(text);
}

async function tail(options: Readonly<Record<string, unknown>>, command: Command): Promise<void> {
  const control = await ControlClient.find(command);
  const parameters = new URLSearchParams();
  for (const name of PARAMETERS) if (options[name] !== undefined) parameters.set(name, String(options[name]));
  const response = await control.open('GET', `/operations?${parameters.toString()}`);
  try {
    for await (const line of createInterface({ input: response })) {
      if (line === '') process.stderr.write('rowan: operations from now on; Ctrl-C ends\n');
      else process.stdout.write(options.json ? `${line}\n` : `${formatRecord(JSON.parse(line) as OperationRecord)}\n`);
    }
  } catch (error) {
    if (!response.destroyed) throw error;
  }
  throw new CliError('the server has ended');
}

export function addTail(program: Command): void {
  controlCommand(program, 'tail', 'show the operations of a running server as they end', EXAMPLES)
    .addOption(new Option('--op <kind>', 'operations of this kind').choices(OPS))
    .option('--who <text>', 'of clients whose DN contains this text')
    .option('--client <address>', 'of clients whose IP address begins so')
    .option('--base <dn>', 'on entries at or below this DN')
    .option(
      '--slower-than <ms>',
      'that took at least so many milliseconds, with the time they waited',
      parseMilliseconds,
    )
    .option('--failed', 'that failed or were abandoned')
    .option('--json', 'JSON lines with the keys of the access log')
    .action(tail);
}

/** A line of the access log (docs/operations.md), parsed. */
interface OperationRecord {
  readonly local_time: string;
  readonly operation: string;
  readonly [key: string]: unknown;
}

const SCOPES = ['base', 'one', 'sub', 'subordinate'];

/** Formats a line of the access log for people, with control characters escaped. */
function formatRecord(record: OperationRecord): string {
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
