import type { Command } from 'commander';
import { formatNumber } from '../exit.js';
import { withDirectory } from '../open-directory.js';
import { directoryCommand, settingsOf } from '../options.js';
import { startProgress } from '../progress.js';

const EXAMPLES = `
Examples:
  rowan index list --data data
  rowan index add employeeNumber --data data
  rowan index add cn --substring --data data     (also for filters such as (cn=*smith*))
  rowan index drop employeeNumber --data data

A running server uses a new index as soon as it is complete. A command that was killed goes on when it is given again,
after a minute at most.
`;

function printWaiting(ms: number): void {
  process.stderr.write(
    `index: another command is adding or dropping this index, or was when it was killed; waiting for it, ${Math.ceil(ms / 1000)} s at most\n`,
  );
}

export function addIndex(program: Command): void {
  const index = program.command('index').description('list, add and drop indexes').addHelpText('after', EXAMPLES);

  directoryCommand(index, 'list', 'show the indexes', EXAMPLES).action((_options: object, command: Command) =>
    withDirectory(settingsOf(command), { readOnly: true }, async ({ partition }) => {
      const rows = partition.indexes().map((one) => {
        const kinds = ['equality', ...(one.presence ? ['presence'] : []), ...(one.substring ? ['substrings'] : [])];
        return `${one.attribute.padEnd(20)} ${one.oid.padEnd(28)} ${one.state.padEnd(9)} ${kinds.join(', ')}\n`;
      });
      process.stdout.write(rows.join(''));
    }),
  );

  directoryCommand(index, 'add <attribute>', 'add an index and build it', EXAMPLES)
    .option('--substring', 'also index every three characters, for (attribute=*part*)')
    .action((attribute: string, options: { substring?: boolean }, command: Command) =>
      withDirectory(settingsOf(command), {}, async ({ partition }) => {
        await partition.addIndex(attribute, { substring: options.substring === true, onWait: printWaiting });
        const progress = startProgress('index', 'entries');
        let indexed = 0;
        await partition.buildIndexes((done) => {
          indexed = done;
          progress.update(done);
        });
        progress.finish();
        process.stdout.write(`index on ${attribute} is ready (${formatNumber(indexed)} entries read)\n`);
      }),
    );

  directoryCommand(index, 'drop <attribute>', 'remove an index', EXAMPLES).action(
    (attribute: string, _options: object, command: Command) =>
      withDirectory(settingsOf(command), {}, async ({ partition }) => {
        await partition.dropIndex(attribute);
        process.stdout.write(`index on ${attribute} is dropped\n`);
      }),
  );
}
