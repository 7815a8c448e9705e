import type { Command } from 'commander';
import type { SchemaChange } from '../../partition/index.js';
import { Schema, type SchemaSource } from '../../schema/index.js';
import { currentRules, parseRulesText } from '../access/rules-file.js';
import { UsageError } from '../exit.js';
import { configuredSchema, type OpenDirectory, withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings, type Settings } from '../options.js';

const EXAMPLES = `
Examples:
  Which schema the directory has, and the text of its own files:
    rowan schema show --data data
    rowan schema show --data data --text > site.ldif

  Give it the files of a folder, in place of its own files so far, or the other NIS schema:
    rowan schema set --data data --schema-folders /etc/rowan/schema
    rowan schema set --data data --schema-nis rfc2307bis

A server takes the schema that the directory has when it starts; restart those that run. What entries, indexes or
access rules need cannot be taken away.
`;

function describeSource({ nis, files }: SchemaSource): string {
  const names = files.map(({ name }) => name).join(', ');
  return `NIS schema ${nis}, ${files.length === 0 ? 'no files of its own' : `own files: ${names}`}`;
}

/** Joins the texts of the files, each after a comment with its name. */
function formatFiles({ files }: SchemaSource): string {
  return files.map(({ name, text }) => `# ${name}\n${text.endsWith('\n') ? text : `${text}\n`}`).join('\n');
}

/** Merges the schema of the directory with that of the settings. */
function mergeSource(currentSource: SchemaSource, { config }: Settings, removesFiles: boolean): SchemaSource {
  const { nis, folders } = config.schema;
  if (nis === undefined && folders.length === 0 && !removesFiles)
    throw new UsageError('which schema? give --schema-folders, --schema-nis or --without-files');
  if (folders.length > 0 && removesFiles) throw new UsageError('--without-files and schema.folders are both given');
  const files = removesFiles
    ? []
    : folders.length > 0
      ? configuredSchema({ config }).source.files
      : currentSource.files;
  return { nis: nis ?? currentSource.nis, files };
}

function describeChange({ added, removed, changed }: SchemaChange): string {
  const counts = [`${added} added`, `${removed} removed`, `${changed} changed`].join(', ');
  const checkNote =
    changed === 0 ? '' : '; run "rowan check": what follows from a changed definition is made anew by "rowan repair"';
  return `definitions: ${counts}${checkNote}\n`;
}

/** Throws when the access rules do not parse under the new schema: only the administrator could then do anything. */
async function requireRulesFit(directory: OpenDirectory, newSchema: Schema): Promise<void> {
  const { text, origin } = await currentRules(directory);
  parseRulesText({ text, origin: `the access rules in force, ${origin}` }, { schema: newSchema });
}

export function addSchema(program: Command): void {
  const schema = commandGroup(program, 'schema', 'show and change the schema of the directory', EXAMPLES);

  directoryCommand(schema, 'show', 'show the schema of the directory', EXAMPLES)
    .option('--text', 'the text of its own files, as LDIF')
    .action((flags: { text?: boolean }, command: Command) =>
      withDirectory(resolveSettings(command), { readOnly: true, anySchema: true }, async (directory) => {
        const { source } = directory.schema;
        process.stdout.write(flags.text === true ? formatFiles(source) : `${describeSource(source)}\n`);
      }),
    );

  const set = directoryCommand(schema, 'set', 'give the directory the schema of these settings', EXAMPLES);
  for (const option of set.options) if (option.long?.startsWith('--schema-')) option.helpGroup('Options:');
  set
    .option('--without-files', 'remove the schema files of the directory')
    .action((flags: { withoutFiles?: boolean }, command: Command) => {
      const settings = resolveSettings(command);
      return withDirectory(settings, { anySchema: true }, async (directory) => {
        const { partition, schema: currentSchema } = directory;
        const newSchema = Schema.of(mergeSource(currentSchema.source, settings, flags.withoutFiles === true));
        await requireRulesFit(directory, newSchema);
        const change = await partition.changeSchema(newSchema);
        process.stdout.write(`the directory's schema: ${describeSource(newSchema.source)}\n${describeChange(change)}`);
        process.stdout.write('servers that run go on with the schema they have: restart them\n');
      });
    });
}
