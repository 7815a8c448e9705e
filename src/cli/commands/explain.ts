import { type Command, Option } from 'commander';
import type { Scope } from '../../ldap/ldap-types.js';
import { UNLIMITED_SEARCH } from '../../partition/index.js';
import { resolveKeys, SortOrder } from '../../partition/read/order/sort-order.js';
import type { Explanation, SearchParams } from '../../partition/read/search-params.js';
import { formatNumber, UsageError } from '../exit.js';
import { parseFilterArgument, unknownAttributes } from '../filter.js';
import { type OpenDirectory, parseDnArgument, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';

const EXAMPLES = `
Examples:
  Which index answers this search, and how many rows does it look at?
    rowan explain --data data --base dc=example,dc=com '(&(objectClass=person)(mail=ada@example.com))'

  The directory has one suffix, so that --base can be left out:
    rowan explain --data data '(uid=ada)'

  One level below an entry:
    rowan explain --data data --base ou=people,dc=example,dc=com --scope one '(title=*engineer*)'

  Does an index have the order of a sorted search (keys as of ldapsearch -E sss=)?
    rowan explain --data data --sort sn '(objectClass=person)'
`;

const PLANS: Readonly<Record<string, string>> = {
  base: 'base: the base entry alone',
  index: 'index: candidates from an index, each read and compared',
  scope: 'scope: the entries below the base, one level after another',
  table: 'table: every entry of the suffix',
};

/** `notes`: messages about unknown attributes of the filter. */
function formatExplanation(explanation: Explanation, notes: readonly string[]): string {
  const lines = notes.map((note) => `note        ${note}; its term is never true, and neither is the opposite`);
  lines.push(`plan        ${PLANS[explanation.plan] ?? explanation.plan}`);
  for (const { term, count, taken, why } of explanation.terms) {
    const countText = count === undefined ? 'not counted' : formatNumber(count);
    lines.push(`${taken ? '  taken   ' : '  left    '}  ${term}: ${countText}${why === '' ? '' : ` (${why})`}`);
  }
  if (explanation.storeFilter !== undefined) lines.push(`row filter  ${explanation.storeFilter}`);
  lines.push(`candidates  ${formatNumber(explanation.candidates)}`);
  lines.push(`rows read   ${formatNumber(explanation.rowsExamined)}`);
  lines.push(`entries     ${formatNumber(explanation.entries)}`);
  if (explanation.advice !== undefined) lines.push(`advice      ${explanation.advice}`);
  return `${lines.join('\n')}\n`;
}

/** Describes how the entries would be sorted. The keys are those of `ldapsearch -E sss=`. */
async function explainSort({ partition, schema }: OpenDirectory, params: SearchParams, text: string): Promise<string> {
  const named = text.split('/').map((key) => {
    const [attribute, rule] = key.replace(/^-/, '').split(':') as [string, string?];
    return { attribute, rule, isReverse: key.startsWith('-') };
  });
  const keys = resolveKeys(schema, named);
  if ('result' in keys) return `sort        not possible by ${keys.attribute}: ${keys.result}\n`;
  const walk = new SortOrder(schema, partition.descriptions, keys);
  const noSink = { entry: () => undefined, reference: () => undefined };
  const { entries } = await partition.search({ ...params, walk, pageSize: 1 }, noSink);
  const type = walk.indexedType;
  if (entries > 0)
    return `sort        the first entries come from the index of ${type!.name}; all, when more are sent\n`;
  const hasIndex = !type || partition.indexes().some(({ attribute }) => attribute === type.name);
  const advice = hasIndex ? '' : `advice      rowan index add ${type.name}\n`;
  const reason = type ? '' : ': no index has this order';
  return `sort        all entries are collected and sorted${reason}\n${advice}`;
}

interface ExplainOptions {
  readonly base?: string;
  readonly sort?: string;
  readonly scope: Scope;
}

function requireOnlySuffix(suffixes: readonly string[]): string {
  if (suffixes.length === 1) return suffixes[0]!;
  const suffixList = suffixes.map((suffix) => `'${suffix}'`).join(', ');
  throw new UsageError(`where does the search start? give --base: this directory holds ${suffixList}`);
}

export function addExplain(program: Command): void {
  directoryCommand(program, 'explain', 'show how a search is answered', EXAMPLES)
    .argument('<filter>', 'search filter (RFC 4515)')
    .option('--base <dn>', 'base of the search (default: the suffix, if there is only one)')
    .addOption(
      new Option('--scope <scope>', 'scope of the search')
        .choices(['base', 'one', 'sub', 'subordinate'])
        .default('sub'),
    )
    .option('--sort <keys>', 'keys of a sorted search, such as sn/-givenName')
    .action((filter: string, options: ExplainOptions, command: Command) => {
      const parsedFilter = parseFilterArgument(filter);
      return withDirectory(resolveSettings(command), { readOnly: true }, async (directory) => {
        const { partition, schema } = directory;
        const base = parseDnArgument(schema, options.base ?? requireOnlySuffix(partition.settings.suffixes));
        const { scope } = options;
        const params = { ...UNLIMITED_SEARCH, base, scope, filter: parsedFilter };
        const explanation = await partition.explain(params);
        process.stdout.write(formatExplanation(explanation, unknownAttributes(parsedFilter, schema)));
        if (options.sort !== undefined) process.stdout.write(await explainSort(directory, params, options.sort));
      });
    });
}
