import type { Command } from 'commander';
import { UsageError } from '../exit.js';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand } from '../options.js';

const EXAMPLES = `
Examples:
  Values of member, uniqueMember and secretary follow the names of the entries that they name; others stay as they are:
    rowan index add secretary --data data
    rowan references set member uniqueMember secretary --data data

  No values follow names any more:
    rowan references set --none --data data

  rowan references show --data data

Which values name an entry that is not there: rowan check --references
`;

async function show({ partition }: OpenDirectory): Promise<void> {
  for (const name of partition.references()) process.stdout.write(`${name}\n`);
}

async function set({ partition }: OpenDirectory, attributes: string[], { none = false }): Promise<void> {
  if (none === attributes.length > 0) throw new UsageError('name the attributes that follow names, or give --none');
  await partition.setReferences(attributes);
  process.stdout.write(`attributes that follow names: ${partition.references().join(', ') || 'none'}\n`);
}

export function addReferences(program: Command): void {
  const references = commandGroup(
    program,
    'references',
    'show and change which attributes follow the names of the entries that they name',
    EXAMPLES,
  );

  directoryCommand(references, 'show', 'show the attributes', EXAMPLES).action(
    directoryAction({ readOnly: true }, show),
  );

  directoryCommand(references, 'set', 'have these attributes follow names, and no others', EXAMPLES)
    .argument('[attributes...]', 'attributes whose values are DNs, with an index')
    .option('--none', 'have no attribute follow names')
    .action(directoryAction({}, set));
}
