import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addCheck, addRepair } from './commands/check.js';
import { addConfig } from './commands/config.js';
import { addCopy } from './commands/copy.js';
import { addDeleted } from './commands/deleted.js';
import { addExplain } from './commands/explain.js';
import { addExport } from './commands/export.js';
import { addHBase } from './commands/hbase.js';
import { addImport } from './commands/import.js';
import { addIndex } from './commands/indexes.js';
import { addInit } from './commands/init.js';
import { addPasswd } from './commands/passwd.js';
import { addQuickstart } from './commands/quickstart.js';
import { addServe } from './commands/serve.js';
import { ExitCode, reportError } from './exit.js';

const EXAMPLES = `
Examples:
  A directory from nothing, served:
    rowan init --data data --suffix dc=example,dc=com --admin-dn cn=admin,dc=example,dc=com
    rowan import --data data people.ldif
    rowan serve --data data --listen ldap://127.0.0.1:1389

  "rowan COMMAND --help" has more of them for each command.
Exit codes: 0 done, 1 failed, 2 the command line is wrong.
`;

function version(): string {
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** The whole command line. Commander's own errors are thrown as `CommanderError`, already printed. */
export function createProgram(): Command {
  const program = new Command('rowan')
    .description('An LDAP directory server')
    .version(version())
    .addHelpText('after', EXAMPLES)
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'rowan: ')) })
    .exitOverride();
  for (const add of [addInit, addServe, addImport, addExport, addCheck, addRepair]) add(program);
  for (const add of [addIndex, addDeleted, addExplain, addPasswd, addCopy, addHBase, addConfig, addQuickstart])
    add(program);
  return program;
}

/** A reader that has read enough, such as `head`, is no failure. */
function endQuietlyOnClosedPipe(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(ExitCode.ok);
    throw error;
  });
}

/** `lmdb` prints the error of a failed commit before it rejects with it; here it is told once, by who waits for the commit. */
function tellCommitErrorsOnce(): void {
  const print = console.error;
  console.error = (...given: unknown[]) => {
    const [error] = given;
    const fromLmdb = error instanceof Error && 'code' in error && typeof error.code === 'number';
    if (!fromLmdb || !/[/\\]lmdb[/\\]/.test(error.stack ?? '')) print(...given);
  };
}

async function main(): Promise<void> {
  endQuietlyOnClosedPipe();
  tellCommitErrorsOnce();
  try {
    await createProgram().parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? ExitCode.ok : ExitCode.usage;
    else process.exitCode = reportError(error);
  }
}

await main();
