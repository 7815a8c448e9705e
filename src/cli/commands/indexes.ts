import type { Command } from 'commander';
import { proposalLines } from '../../server/virtual/index-proposals.js';
import { formatNumber } from '../exit.js';
import { directoryAction, type OpenDirectory, withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  rowan index list --data data
  rowan index add employeeNumber --data data
  rowan index add cn --substring --data data     (also for filters such as (cn=*smith*))
  rowan index drop employeeNumber --data data
  rowan index proposals --data data              (indexes that searches lacked, the most useful first)

A running server uses a new index as soon as it is complete. A command that was killed goes on when it is given again,
after a minute at most.
`;

function printWaitNotice(ms: number): void {
  process.stderr.write(
    `index: another command is adding or dropping this index, or was when it was killed; waiting for it, ${Math.ceil(ms / 1000)} s at most\n`,
  );
}

async function list({ partition }: OpenDirectory): Promise<void> {
  for (const { attribute, oid, state, presence, substring, made } of partition.indexes()) {
    const kinds = ['equality', ...(presence ? ['presence'] : []), ...(substring ? ['substrings'] : [])];
    if (made) kinds.push('made by job indexes');
    process.stdout.write(`${attribute.padEnd(20)} ${oid.padEnd(28)} ${state.padEnd(9)} ${kinds.join(', ')}\n`);
  }
}

async function add({ partition }: OpenDirectory, attribute: string, options: { substring?: boolean }): Promise<void> {
  await partition.addIndex(attribute, { substring: options.substring === true, onWait: printWaitNotice });
  const progress = new Progress('index', 'entries');
  let entryCount = 0;
  await partition.buildIndexes((done) => {
    entryCount = done;
    progress.update(done);
  });
  progress.finish();
  process.stdout.write(`index on ${attribute} is ready (${formatNumber(entryCount)} entries read)\n`);
}

async function drop({ partition }: OpenDirectory, attribute: string): Promise<void> {
  await partition.dropIndex(attribute);
  process.stdout.write(`index on ${attribute} is dropped\n`);
}

async function proposals({ forget = false }: { forget?: boolean }, command: Command): Promise<void> {
  const settings = resolveSettings(command);
  await withDirectory(settings, { readOnly: !forget }, async ({ partition }) => {
    const lines = await proposalLines(partition);
    for (const line of lines) process.stdout.write(`${line}\n`);
    if (settings.config.indexes.auto === 'off')
      process.stderr.write('index: searches are not counted with indexes.auto: off\n');
    else if (lines.length === 0)
      process.stderr.write('index: no search has lacked an index, up to a minute ago; servers add their counts then\n');
    if (forget) await partition.forgetProposals();
  });
}

export function addIndex(program: Command): void {
  const index = commandGroup(program, 'index', 'list, add and drop indexes', EXAMPLES);

  directoryCommand(index, 'list', 'show the indexes', EXAMPLES).action(directoryAction({ readOnly: true }, list));

  directoryCommand(index, 'add <attribute>', 'add an index and build it', EXAMPLES)
    .option('--substring', 'also index every three characters, for (attribute=*part*)')
    .action(directoryAction({}, add));

  directoryCommand(index, 'drop <attribute>', 'remove an index', EXAMPLES).action(directoryAction({}, drop));

  directoryCommand(index, 'proposals', 'show the indexes that searches lacked, with gain and cost', EXAMPLES)
    .option('--forget', 'then count from nothing')
    .action(proposals);
}
