import { createInterface } from 'node:readline';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { OPS } from '../../server/processes/statistics.js';
import { ControlClient, controlCommand } from '../control-client.js';
import { CliError } from '../exit.js';
import { formatRecord, type OperationRecord } from '../watch/operation-text.js';

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
