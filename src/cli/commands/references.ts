import type { Command } from 'commander';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand } from '../options.js';

const EXAMPLES = `
Examples:
  Values of member, uniqueMember and secretary follow the names of the entries that they name; others stay as they are:
    rowan index add secretary --data data
    rowan references set member uniqueMember secretary --data data

  rowan references show --data data

Which values name an entry that is not there: rowan check --references
`;

async function show({ partition }: OpenDirectory): Promise<void> {
  for (const name of partition.references()) process.stdout.write(`${name}\n`);
}

async function set({ partition }: OpenDirectory, attributes: string[]): Promise<void> {
  await partition.setReferences(attributes);
  process.stdout.write(`attributes that follow names: ${partition.references().join(', ')}\n`);
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
    .argument('<attributes...>', 'attributes whose values are DNs, with an index')
    .action(directoryAction({}, set));
}
