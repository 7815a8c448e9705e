import { type Command, InvalidArgumentError } from 'commander';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand } from '../options.js';

const EXAMPLES = `
Examples:
  An entry that is added with "uidNumber: auto" gets the next number:
    rowan number set uidNumber 10000 59999 --data data
    rowan number set gidNumber 10000 59999 --data data

  65534 is left out, which systems use for nobody:
    rowan number set uidNumber 60000 69999 --except 65534 --data data

  The ranges, the next number of each, and how many are left:
    rowan number show --data data
    rowan number remove gidNumber --data data
`;

function parseNumber(text: string): number {
  if (!/^(0|[1-9]\d{0,14})$/.test(text)) throw new InvalidArgumentError('is not a whole number from 0 on');
  return Number(text);
}

function collectNumbers(text: string, numbers: readonly number[] = []): readonly number[] {
  return [...numbers, parseNumber(text)];
}

async function set(
  { partition }: OpenDirectory,
  attribute: string,
  first: number,
  last: number,
  { except }: { readonly except?: readonly number[] },
): Promise<void> {
  await partition.setNumbers(attribute, first, last, except);
  process.stdout.write(`${attribute}: numbers from ${first} to ${last} are given out\n`);
}

async function show({ partition }: OpenDirectory): Promise<void> {
  for (const { attribute, first, last, except, next, left } of await partition.numberRanges()) {
    const leftText = left === undefined ? `none without an index: rowan index add ${attribute}` : `${left} left`;
    const nextText = left === 0n ? 'none is left' : `next ${next}, ${leftText}`;
    const exceptText = except.length > 0 ? ` except ${except.join(', ')}` : '';
    process.stdout.write(`${attribute.padEnd(20)} ${first} to ${last}${exceptText}, ${nextText}\n`);
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
    .option('--except <numbers...>', 'numbers of the range that are not given out', collectNumbers)
    .action(directoryAction({}, set));

  directoryCommand(number, 'remove', 'give out no more numbers of an attribute', EXAMPLES)
    .argument('<attribute>')
    .action(directoryAction({}, remove));
}
