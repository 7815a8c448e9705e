import type { Command } from 'commander';
import type { Breach } from '../../partition/types.js';
import { withDirectory } from '../directory.js';
import { ExitCode, formatCount } from '../exit.js';
import { directoryCommand, settingsOf } from '../options.js';
import { startProgress } from '../progress.js';

const CHECK_EXAMPLES = `
Examples:
  Look at everything; each breach is a line "invariant where: message", and the exit code is 1 when there is any:
    rowan check --data data

  Beside a running server, at night, from cron:
    rowan check --data /var/lib/rowan || mail -s "rowan check" root < /dev/null
`;

const REPAIR_EXAMPLES = `
Examples:
  Restore the tree, the indexes and the counters from the entries themselves, then make sure:
    rowan repair --data data && rowan check --data data
`;

function printBreach(breach: Breach): void {
  process.stdout.write(`${breach.invariant} ${breach.where}: ${breach.message}\n`);
}

export function addCheck(program: Command): void {
  directoryCommand(program, 'check', 'verify that tree, indexes and counters agree with the entries')
    .addHelpText('after', CHECK_EXAMPLES)
    .action((_options: object, command: Command) =>
      withDirectory(settingsOf(command), { readOnly: true, inOrder: true }, async ({ partition }) => {
        const progress = startProgress('check', 'rows');
        const breaches = await partition.check(printBreach, (done) => progress.update(done));
        progress.finish();
        process.stdout.write(breaches === 0 ? 'no breach found\n' : `breaches found: ${formatCount(breaches)}\n`);
        if (breaches > 0) process.exitCode = ExitCode.failure;
      }),
    );
}

export function addRepair(program: Command): void {
  directoryCommand(program, 'repair', 'restore tree, indexes and counters from the entries')
    .addHelpText('after', REPAIR_EXAMPLES)
    .action((_options: object, command: Command) =>
      withDirectory(settingsOf(command), {}, async ({ partition }) => {
        const progress = startProgress('repair', 'rows');
        const repaired = await partition.repair(printBreach, (done) => progress.update(done));
        progress.finish();
        process.stdout.write(repaired === 0 ? 'nothing to repair\n' : `repaired: ${formatCount(repaired)}\n`);
      }),
    );
}
