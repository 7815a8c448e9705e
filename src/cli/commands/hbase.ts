import type { Command } from 'commander';
import { DEFAULT_INDEXES } from '../../partition/model/index-set.js';
import { FIXED_TABLES, indexTable, splitKeys } from '../../partition/model/tables.js';
import type { Schema } from '../../schema/index.js';
import type { TableSpec } from '../../store/contract.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { collectValues } from '../config/index.js';
import { CliError, pluralize, UsageError } from '../exit.js';
import { configuredSchema, readHBaseSettings, withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, loadSettings, type Settings } from '../options.js';

const EXAMPLES = `
Examples:
  Where no REST gateway may be used, make the tables with HBase's own shell, before "rowan init":
    rowan hbase schema --store hbase://master1:16000/acme | hbase shell -n

  Before an index is added to such a directory:
    rowan hbase schema --store hbase://master1:16000/acme --only employeeNumber | hbase shell -n

  Whether the tables still are what they have to be (over the gateway):
    rowan hbase verify --store hbase://master1:16000/acme
`;

function attributeTables(schema: Schema, names: readonly string[]): TableSpec[] {
  return names.map((name) => {
    const type = schema.attribute(name);
    if (!type) throw new UsageError(`attribute '${name}' is not in the schema`);
    return indexTable(type.oid);
  });
}

/** Returns the schema of the settings, or of the directory if `only` needs it: before `init` there is no directory. */
async function schemaFor(settings: Settings, indexNames: readonly string[] = []): Promise<Schema> {
  const configured = configuredSchema(settings);
  if (indexNames.every((name) => configured.attribute(name))) return configured;
  return withDirectory(settings, {}, async ({ schema }) => schema);
}

function hbaseCommandSettings(command: Command): Settings {
  const { config } = loadSettings(command);
  const { store } = config;
  if (store === undefined || !isHBaseUrl(store))
    throw new UsageError("which HBase? give '--store hbase://HOST:PORT[/PREFIX]'");
  return { config, store };
}

async function printSchema(settings: Settings, indexNames: readonly string[] | undefined): Promise<void> {
  const hbase = await readHBaseSettings(settings.store, settings.config);
  const tables = await import('../../store/hbase/schema/index.js');
  const { INTERNAL_TABLES } = await import('../../store/hbase/index.js');
  const regions = hbase.regions > 0 ? hbase.regions : tables.DEFAULT_REGIONS;
  const internalTables = indexNames ? [] : [tables.CATALOG, ...INTERNAL_TABLES];
  const specs = attributeTables(await schemaFor(settings, indexNames), indexNames ?? DEFAULT_INDEXES);
  const descriptors = [
    ...internalTables.map((table) => tables.describeInternal(hbase, table)),
    ...[...(indexNames ? [] : FIXED_TABLES), ...specs].map((spec) =>
      tables.describeTable(hbase, spec, splitKeys(spec, regions)),
    ),
  ];
  for (const descriptor of descriptors) process.stdout.write(`${tables.createCommand(descriptor)}\n`);
}

/** For example `3 regions: 2 on a:16020, 1 on b:16020`. */
function formatRegions(counts: ReadonlyMap<string, number>): string {
  const regionCount = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const servers = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([server, count]) => `${count} on ${server}`);
  return `${pluralize(regionCount, 'region')}: ${servers.join(', ')}`;
}

async function verify(settings: Settings): Promise<void> {
  const hbase = await readHBaseSettings(settings.store, settings.config);
  const { INTERNAL_TABLES } = await import('../../store/hbase/index.js');
  const { HBaseClient } = await import('../../store/hbase/rpc/client.js');
  const { TableRegistry } = await import('../../store/hbase/schema/index.js');
  const client = new HBaseClient(hbase);
  try {
    const registry = new TableRegistry(client, hbase);
    const faultLists = await registry.verify(INTERNAL_TABLES);
    if (!faultLists) throw new CliError('the tables can be looked at over a REST gateway only, and hbase.rest is none');
    for (const [table, faults] of faultLists) for (const fault of faults) process.stdout.write(`${table}: ${fault}\n`);
    if (faultLists.size > 0) throw new CliError(`${pluralize(faultLists.size, 'table')} not as required`);
    for (const [table, counts] of await registry.countRegions(INTERNAL_TABLES))
      process.stdout.write(`${table}: ${formatRegions(counts)}\n`);
    process.stdout.write('the tables are as required\n');
  } finally {
    await client.close();
  }
}

export function addHBase(program: Command): void {
  const hbase = commandGroup(program, 'hbase', 'tables in HBase', EXAMPLES);

  directoryCommand(hbase, 'schema', "print the commands of HBase's shell that make the tables", EXAMPLES)
    .option('--only <attribute>', 'only the table of an index (may be repeated)', collectValues)
    .action((options: { only?: readonly string[] }, command: Command) =>
      printSchema(hbaseCommandSettings(command), options.only),
    );

  directoryCommand(hbase, 'verify', 'verify the tables, and show where their regions are')
    .addHelpText('after', EXAMPLES)
    .action((_options: object, command: Command) => verify(hbaseCommandSettings(command)));
}
