import { type Command, InvalidArgumentError } from 'commander';
import { CliError, formatNumber, pluralize } from '../exit.js';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  No two entries have one uid:
    rowan unique add uid --data data

  No two people have one mail address, be it in mail or in mailAlternateAddress:
    rowan unique add mail mailAlternateAddress --subtree ou=people,dc=example,dc=com \\
      --filter '(objectClass=inetOrgPerson)' --data data

  rowan unique show --data data
  rowan unique remove 1 --data data

Servers may run meanwhile. A command that was killed goes on when it is given again.
`;

function parseNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new InvalidArgumentError('is not the number of a constraint; "rowan unique show" shows them');
  return Number(text);
}

interface Scope {
  readonly subtree?: string;
  readonly filter?: string;
}

async function add({ partition }: OpenDirectory, attributes: string[], { subtree, filter }: Scope): Promise<void> {
  const number = await partition.addUnique({ attributes, subtree, filter });
  const progress = new Progress('unique', 'entries');
  let [readCount, conflictCount] = [0, 0];
  await partition.finishUnique({
    onProgress(done) {
      readCount = done;
      progress.update(done);
    },
    onConflict(conflict) {
      if (conflict.number !== number) return;
      conflictCount++;
      const ownerTexts = conflict.dns.length > 0 ? conflict.dns : ['more entries than can be listed'];
      process.stdout.write(`'${conflict.value}' is the value of\n${ownerTexts.map((dn) => `  ${dn}\n`).join('')}`);
    },
  });
  progress.finish();
  if (conflictCount > 0)
    throw new CliError(
      `${pluralize(conflictCount, 'value')} of several entries: the constraint is listed, and not in force. Change the entries and give the command again; "rowan unique remove ${number}" takes it back`,
    );
  process.stdout.write(`constraint ${number} is in force (${formatNumber(readCount)} entries read)\n`);
}

async function show({ partition }: OpenDirectory): Promise<void> {
  for (const { record, text } of partition.uniqueConstraints()) {
    const state = record.ready ? 'in force' : 'not in force';
    process.stdout.write(`${String(record.number).padEnd(4)} ${state.padEnd(13)} ${text}\n`);
  }
}

async function remove({ partition }: OpenDirectory, number: number): Promise<void> {
  await partition.removeUnique(number);
  process.stdout.write(`constraint ${number} is removed\n`);
}

export function addUnique(program: Command): void {
  const unique = commandGroup(program, 'unique', 'show and change which values no two entries may have', EXAMPLES);

  directoryCommand(unique, 'show', 'show the uniqueness constraints', EXAMPLES).action(
    directoryAction({ readOnly: true }, show),
  );

  directoryCommand(unique, 'add <attributes...>', 'require that no two entries share a value in these attributes')
    .addHelpText('after', EXAMPLES)
    .option('--subtree <dn>', 'only for entries at or below this one (default: all)')
    .option('--filter <filter>', 'only for entries that match (default: all)')
    .action(directoryAction({}, add));

  directoryCommand(unique, 'remove', 'remove a constraint', EXAMPLES)
    .argument('<number>', 'as "rowan unique show" shows it', parseNumber)
    .action(directoryAction({}, remove));
}
