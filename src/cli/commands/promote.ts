import type { Command } from 'commander';
import { urlProblem } from '../../replica/ldap-client.js';
import { ControlClient, controlCommand } from '../control-client.js';
import { CliError, UsageError } from '../exit.js';
import { resolveSettings } from '../options.js';
import { promoteFolder } from '../role-keeper.js';

const EXAMPLES = `
Examples:
  The primary is gone; this replica takes its place, whether its server runs or not:
    rowan promote --data data

  The primary is well, and hands over: it follows this server afterwards, which has to run:
    rowan promote --data data --from ldaps://primary.example.com
`;

async function promote({ from }: { readonly from?: string }, command: Command): Promise<void> {
  const settings = resolveSettings(command);
  const problem = from === undefined ? undefined : urlProblem(from);
  if (problem !== undefined) throw new UsageError(`--from ${problem}`);
  const isServed = (await ControlClient.findAll(settings.config)).length > 0;
  if (!isServed && from !== undefined)
    throw new CliError(`no server runs with ${settings.store}: start it, so that the primary can hand over to it`);
  const query = from === undefined ? '' : `?${new URLSearchParams({ from })}`;
  const text = isServed
    ? await (await ControlClient.find(command)).request('POST', `/promote${query}`)
    : `the primary of term ${await promoteFolder(settings)}\n`;
  process.stdout.write(`${settings.store} is ${text}`);
}

export function addPromote(program: Command): void {
  controlCommand(program, 'promote', 'make a replica the primary of a new term', EXAMPLES)
    .option('--from <url>', 'ldaps:// or ldapi:// URL of the present primary, which hands over')
    .action(promote);
}
