import { type Command, InvalidArgumentError } from 'commander';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand } from '../options.js';

const EXAMPLES = `
Examples:
  An entry that is added with "uidNumber: auto" gets the next number:
    rowan number set uidNumber 10000 59999 --data data
    rowan number set gidNumber 10000 59999 --data data

  rowan number show --data data
  rowan number remove gidNumber --data data
`;

function parseNumber(text: string): number {
  if (!/^(0|[1-9]\d{0,14})$/.test(text)) throw new InvalidArgumentError('is not a whole number from 0 on');
  return Number(text);
}

async function set({ partition }: OpenDirectory, attribute: string, first: number, last: number): Promise<void> {
  await partition.setNumbers(attribute, first, last);
  process.stdout.write(`${attribute}: numbers from ${first} to ${last} are given out\n`);
}

async function show({ partition }: OpenDirectory): Promise<void> {
  for (const { attribute, first, last, next } of await partition.numberRanges()) {
    const nextText = next > BigInt(last) ? 'none is left' : `next ${next}`;
    process.stdout.write(`${attribute.padEnd(20)} ${first} to ${last}, ${nextText}\n`);
  }
}

async function remove({ partition }: OpenDirectory, attribute: string): Promise<void> {
  await partition.removeNumbers(attribute);
  process.stdout.write(`${attribute}: no numbers are given out\n`);
}

export function addNumber(program: Command): void {
  const number = commandGroup(program, 'number', 'show and change the ranges of numbers for "auto"', EXAMPLES);

  directoryCommand(number, 'show', 'show the ranges of numbers', EXAMPLES).action(
    directoryAction({ readOnly: true }, show),
  );

  directoryCommand(number, 'set', 'give out numbers of an attribute', EXAMPLES)
    .argument('<attribute>', 'attribute of syntax Integer, with an index')
    .argument('<first>', 'first number', parseNumber)
    .argument('<last>', 'last number', parseNumber)
    .action(directoryAction({}, set));

  directoryCommand(number, 'remove', 'give out no more numbers of an attribute', EXAMPLES)
    .argument('<attribute>')
    .action(directoryAction({}, remove));
}
