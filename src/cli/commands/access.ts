import { closeSync, readFileSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Translation, translate } from '../../access/from-slapd/from-slapd.js';
import type { Remark, RemarkKind } from '../../access/from-slapd/report.js';
import { parseRules } from '../../access/parse-rules.js';
import { DEFAULT_PRESET, PRESETS, type Preset } from '../../access/presets.js';
import { MECHANISMS, type Mechanism } from '../../access/requester.js';
import { RIGHT_WORDS, rightsOfWord } from '../../access/right.js';
import { appliesTo, checkExpectation, misfitMessage, readExpectations } from '../access/expectations.js';
import { formatAttributeRights, formatConnection, formatLimits, formatRights } from '../access/explained.js';
import { ANONYMOUS, type Connection, MAX_STRENGTH, RightsExplainer } from '../access/right-answers.js';
import { rulesDiff } from '../access/rules-diff.js';
import {
  checkRulesText,
  currentRules,
  describeSize,
  formatFaults,
  parseRulesText,
  type RulesText,
  readTextFile,
  rulesOfPreset,
  rulesOfVersion,
} from '../access/rules-file.js';
import { AtomicFile } from '../atomic-file.js';
import { addSettingFlags } from '../config/index.js';
import { currentUser } from '../current-user.js';
import { CliError, pluralize, UsageError } from '../exit.js';
import {
  configuredSchema,
  directoryAction,
  type OpenDirectory,
  parseAttributeArgument,
  parseDnArgument,
} from '../open-directory.js';
import { commandGroup, directoryCommand, loadSettings } from '../options.js';

const EXAMPLES = `
Examples:
  Take the rules in force, change them, and put them in force at every server of the directory:
    rowan access show --data data > access.yaml
    rowan access diff access.yaml --data data
    rowan access apply access.yaml --data data

  Bring an earlier set back:
    rowan access history --data data
    rowan access apply --version 3 --data data

  May somebody do something, and by which rule?
    rowan access explain --as uid=ada,ou=people,dc=example,dc=com --to uid=bram,ou=people,dc=example,dc=com --data data

  Keep the rules under test (docs/access.md):
    rowan access test expectations.yaml --rules access.yaml --data data
`;

function parseVersion(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new InvalidArgumentError('is not the number of a version; "rowan access history" shows them');
  return Number(text);
}

function parseStrength(text: string): number {
  if (!/^\d{1,3}$/.test(text) || Number(text) > MAX_STRENGTH)
    throw new InvalidArgumentError(`is not a number of bits from 0 (no TLS) to ${MAX_STRENGTH}`);
  return Number(text);
}

function parseAddress(text: string): string {
  if (isIP(text) === 0) throw new InvalidArgumentError('is not an IPv4 or IPv6 address');
  return text;
}

function print(text: string): void {
  process.stdout.write(text);
}

async function show(directory: OpenDirectory, { version }: { version?: number }): Promise<void> {
  const rules =
    version === undefined ? await currentRules(directory) : await rulesOfVersion(directory.partition, version);
  if (rules.version === 0) print(`# The directory was given no rules: those of the preset ${DEFAULT_PRESET} hold.\n`);
  print(rules.text.endsWith('\n') ? rules.text : `${rules.text}\n`);
}

interface RulesOptions {
  readonly version?: number;
  readonly preset?: Preset;
}

async function readRules(directory: OpenDirectory, file: string | undefined, source: RulesOptions): Promise<RulesText> {
  const sources = [file, source.version, source.preset].filter((one) => one !== undefined);
  if (sources.length !== 1) throw new UsageError('which rules? give a file, --version or --preset, one of them');
  if (file !== undefined) return readTextFile(file);
  if (source.version !== undefined) return rulesOfVersion(directory.partition, source.version);
  return rulesOfPreset(source.preset!, directory.schema);
}

async function apply(directory: OpenDirectory, file: string | undefined, source: RulesOptions): Promise<void> {
  const { partition, schema } = directory;
  const newRules = await readRules(directory, file, source);
  const rules = await checkRulesText(newRules, directory);
  const oldRules = await currentRules(directory);
  if (oldRules.version > 0 && oldRules.text === newRules.text) {
    print(`these rules are in force already, as version ${oldRules.version}: ${describeSize(rules)}\n`);
    return;
  }
  const version = await partition.setAccess(newRules.text, currentUser(), oldRules.version);
  const parsedOldRules = parseRules(oldRules.text, schema).rules;
  const size = parsedOldRules ? ` (${describeSize(parsedOldRules)})` : '';
  print(`in force as version ${version}: ${describeSize(rules)}\nin place of ${oldRules.origin}${size}\n`);
}

async function diff(directory: OpenDirectory, file: string): Promise<void> {
  const newRules = readTextFile(file);
  await checkRulesText(newRules, directory);
  const oldRules = await currentRules(directory);
  parseRulesText(oldRules, directory);
  print(`${oldRules.origin} to ${newRules.origin}:\n${rulesDiff(oldRules.text, newRules.text)}`);
}

async function history({ partition, schema }: OpenDirectory): Promise<void> {
  const versions = await partition.accessHistory();
  if (versions.length === 0) print(`the directory was given no rules: those of the preset ${DEFAULT_PRESET} hold\n`);
  for (const { version, time, author: by, text } of versions) {
    const { rules } = parseRules(text, schema);
    const size = rules ? describeSize(rules) : 'with faults under the schema of now';
    print(`${version}  ${new Date(time).toISOString()}  ${size}  (by ${by || 'rowan init'})\n`);
  }
}

async function test(directory: OpenDirectory, file: string, options: { rules?: string }): Promise<void> {
  const table = readTextFile(file);
  const { expectations, faults } = readExpectations(table.text, directory.schema);
  if (faults.length > 0) throw new CliError(formatFaults(table.origin, faults).join('\n'));
  const rules =
    options.rules === undefined
      ? parseRulesText(await currentRules(directory), directory)
      : await checkRulesText(readTextFile(options.rules), directory);
  const explainer = new RightsExplainer(directory, rules);
  const failures: string[] = [];
  let failedCount = 0;
  for (const expectation of expectations) {
    const messages = await checkExpectation(expectation, explainer);
    if (messages.length > 0) failedCount++;
    failures.push(...messages.map((message) => `${table.origin}:${expectation.line}: ${message}`));
  }
  print(`${pluralize(expectations.length, 'expectation')}, ${failedCount} not as expected\n`);
  if (failures.length > 0) throw new CliError(failures.join('\n'));
}

interface ExplainOptions {
  readonly as: string;
  readonly to: string;
  readonly address?: string;
  readonly tls: number;
  readonly mechanism: Mechanism;
  readonly attribute?: string;
  readonly right?: string;
}

async function explain(directory: OpenDirectory, options: ExplainOptions): Promise<void> {
  const { schema } = directory;
  const identity = options.as === ANONYMOUS ? ANONYMOUS : parseDnArgument(schema, options.as);
  const target = parseDnArgument(schema, options.to);
  const attribute = options.attribute === undefined ? undefined : parseAttributeArgument(schema, options.attribute);
  const selectedRights = options.right === undefined ? undefined : parseRight(options.right, attribute !== undefined);
  const connection: Connection = { address: options.address, strength: options.tls, mechanism: options.mechanism };
  const explainer = new RightsExplainer(directory, parseRulesText(await currentRules(directory), directory));
  const { rights, limits } = await explainer.rightsOf(identity, connection);
  const answers = await explainer.explain(rights, target, attribute);
  print(
    `${identity === ANONYMOUS ? identity : identity.text} (${formatConnection(connection)})\non ${attribute ? `${attribute.text} of ` : ''}${target.text}\n\n`,
  );
  print(formatRights(selectedRights ? answers.filter(({ right }) => selectedRights.includes(right)) : answers));
  if (attribute || selectedRights) return;
  const attributes = formatAttributeRights(await explainer.attributeRights(rights, target));
  if (attributes !== '') print(`\n${attributes}`);
  if (Object.keys(limits).length > 0) print(`\nlimits: ${formatLimits(limits)}\n`);
}

function parseRight(word: string, isOnAttribute: boolean): readonly string[] {
  const rights = rightsOfWord(word);
  if (!rights) throw new UsageError(`'${word}' is no right; there are ${RIGHT_WORDS.join(', ')}`);
  const fittingRights = rights.filter((right) => appliesTo(right, isOnAttribute));
  if (fittingRights.length === 0) throw new UsageError(`${misfitMessage(word, isOnAttribute)} (--attribute)`);
  return fittingRights;
}

export function addAccess(program: Command): void {
  const access = commandGroup(program, 'access', 'show, change, explain and test who may do what', EXAMPLES);

  directoryCommand(access, 'show', 'show the access rules in force', EXAMPLES)
    .option('--version <number>', 'rules of an earlier version', parseVersion)
    .action(directoryAction({ readOnly: true }, show));

  directoryCommand(access, 'apply', 'put access rules in force, replacing the current ones', EXAMPLES)
    .argument('[file]', 'YAML file of rules')
    .option('--version <number>', 'rules of an earlier version', parseVersion)
    .addOption(new Option('--preset <name>', 'rules of a preset').choices(Object.keys(PRESETS)))
    .action(directoryAction({}, apply));

  directoryCommand(access, 'diff', 'show what a file of rules would change', EXAMPLES)
    .argument('<file>', 'YAML file of rules')
    .action(directoryAction({ readOnly: true }, diff));

  directoryCommand(access, 'history', 'list the versions of the access rules', EXAMPLES).action(
    directoryAction({ readOnly: true }, history),
  );

  directoryCommand(access, 'explain', 'show what a user may do with an entry, and by which rules', EXAMPLES)
    .requiredOption('--as <dn>', `a user's DN, or "${ANONYMOUS}"`)
    .requiredOption('--to <dn>', 'the entry')
    .option('--attribute <name>', 'an attribute of the entry')
    .option('--right <right>', 'only this right')
    .option('--address <address>', 'address of the client (default: this machine, by ldapi)', parseAddress)
    .option('--tls <bits>', 'strength of the TLS cipher; 0: without TLS', parseStrength, MAX_STRENGTH)
    .addOption(new Option('--mechanism <name>', 'how the user has bound').choices(MECHANISMS).default('simple'))
    .action(directoryAction({ readOnly: true }, explain));

  directoryCommand(access, 'test', 'check a table of expectations against the rules', EXAMPLES)
    .argument('<file>', 'YAML file of expectations')
    .option('--rules <file>', 'check these rules instead of those in force')
    .action(directoryAction({ readOnly: true }, test));

  addFromSlapd(access);
}

const FROM_SLAPD_EXAMPLES = `
Examples:
  rowan access from-slapd /etc/ldap/slapd.conf > rules.yaml
  slapcat -n 0 | rowan access from-slapd --output rules.yaml -
  rowan access from-slapd 389.ldif --output rules.yaml     (aci values, on the entries they stand at)

The rules give nothing that the source did not, but where the list on standard error says so. Schema that the source's
attributes need is given by --schema-folders. Exit code 1: nothing could be read.
`;

const KINDS: Readonly<Record<RemarkKind, string>> = {
  left: 'not translated',
  less: 'gives less',
  secrets: 'gives less of secrets',
  differs: 'may give more',
  said: 'note',
};

function formatRemark({ line, kind, text }: Remark): string {
  return `line ${line}: ${KINDS[kind]}: ${text}\n`;
}

function formatSummary({ translatedCount, remarks }: Translation): string {
  const countTexts = Object.entries(KINDS).flatMap(([kind, name]) => {
    const count = remarks.filter((remark) => remark.kind === kind).length;
    return count === 0 ? [] : [`${count} × ${name}`];
  });
  const isExact = remarks.every(({ kind }) => kind === 'said');
  const countsText = countTexts.length === 0 ? '' : ` (${countTexts.join(', ')})`;
  return `${translatedCount} ${translatedCount === 1 ? 'line' : 'lines'} read; the rules are ${isExact ? 'exact' : 'not exact'}${countsText}\n`;
}

function addFromSlapd(access: Command): void {
  const command = access
    .command('from-slapd <file>')
    .description("make rules from OpenLDAP's access lines, or from aci values; '-' reads standard input")
    .option('--output <file>', 'write the rules there');
  addSettingFlags(command, ['schema.folders', 'schema.nis'])
    .addHelpText('after', FROM_SLAPD_EXAMPLES)
    .action((file: string, { output }: { output?: string }, self: Command) => {
      const schema = configuredSchema(loadSettings(self));
      const translation = translate(readFileSync(file === '-' ? 0 : file, 'utf8'), schema);
      process.stderr.write(translation.remarks.map(formatRemark).join(''));
      if (translation.translatedCount === 0)
        throw new CliError(`${file} has no 'access', 'olcAccess' or 'aci' that can be read: nothing is written`);
      if (output === undefined) process.stdout.write(translation.yaml);
      else {
        const outputFile = new AtomicFile(output);
        writeFileSync(outputFile.fd, translation.yaml);
        closeSync(outputFile.fd);
        outputFile.finish();
      }
      process.stderr.write(formatSummary(translation));
    });
}
