import { Command, CommanderError, Help } from 'commander';
import { formatAuditComments } from '../server/logs/audit-comments.js';
import { VERSION } from '../server/words/version.js';
import { CommandAuditLog } from './audit-record.js';
import { flagValues, loadConfig } from './config/index.js';
import { currentUser } from './current-user.js';
import { describeError, ExitCode, reportError, reportUnexpected } from './exit.js';
import { isWriter, setUncaughtReporter } from './last-resort.js';
import { suppressLmdbErrors } from './lmdb-texts.js';

const EXAMPLES = `
Examples:
  A directory from nothing, served:
    rowan init --data data --suffix dc=example,dc=com --admin-dn cn=admin,dc=example,dc=com
    rowan import --data data people.ldif
    rowan serve --data data --listen ldap://127.0.0.1:1389

  "rowan COMMAND --help" has more of them for each command.
Exit codes: 0 done, 1 failed, 2 the command line is wrong.
`;

type AddCommand = (program: Command) => void;

/** In the order of the help. Modules are loaded on demand: most commands need few of them. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  init: async () => (await import('./commands/init.js')).addInit,
  serve: async () => (await import('./commands/serve.js')).addServe,
  import: async () => (await import('./commands/import.js')).addImport,
  dropfolder: async () => (await import('./commands/dropfolder.js')).addDropFolder,
  backup: async () => (await import('./commands/backup.js')).addBackup,
  verify: async () => (await import('./commands/backup.js')).addVerify,
  restore: async () => (await import('./commands/backup.js')).addRestore,
  search: async () => (await import('./commands/search.js')).addSearch,
  export: async () => (await import('./commands/export.js')).addExport,
  check: async () => (await import('./commands/check.js')).addCheck,
  repair: async () => (await import('./commands/check.js')).addRepair,
  warm: async () => (await import('./commands/warm.js')).addWarm,
  index: async () => (await import('./commands/indexes.js')).addIndex,
  unique: async () => (await import('./commands/unique.js')).addUnique,
  references: async () => (await import('./commands/references.js')).addReferences,
  number: async () => (await import('./commands/number.js')).addNumber,
  schema: async () => (await import('./commands/schema.js')).addSchema,
  deleted: async () => (await import('./commands/deleted.js')).addDeletedCommands,
  jobs: async () => (await import('./commands/jobs.js')).addJobs,
  changes: async () => (await import('./commands/changes.js')).addChanges,
  history: async () => (await import('./commands/history.js')).addHistory,
  diff: async () => (await import('./commands/history.js')).addDiff,
  undo: async () => (await import('./commands/history.js')).addUndo,
  explain: async () => (await import('./commands/explain.js')).addExplain,
  passwd: async () => (await import('./commands/passwd.js')).addPasswd,
  account: async () => (await import('./commands/account.js')).addAccount,
  access: async () => (await import('./commands/access.js')).addAccess,
  promote: async () => (await import('./commands/promote.js')).addPromote,
  replica: async () => (await import('./commands/replica.js')).addReplica,
  copy: async () => (await import('./commands/copy.js')).addCopy,
  compare: async () => (await import('./commands/compare.js')).addCompare,
  hbase: async () => (await import('./commands/hbase.js')).addHBase,
  doctor: async () => (await import('./commands/doctor.js')).addDoctor,
  top: async () => (await import('./commands/top.js')).addTop,
  tail: async () => (await import('./commands/tail.js')).addTail,
  config: async () => (await import('./commands/config.js')).addConfig,
  quickstart: async () => (await import('./commands/quickstart.js')).addQuickstart,
};

const LISTEN_HINT = '"rowan serve --listen ldap://127.0.0.1:1389" names address and port';
/** What to give instead of options that Rowan does not have. */
const OPTION_HINTS: Readonly<Record<string, string>> = {
  '--port': LISTEN_HINT,
  '--host': LISTEN_HINT,
  '--admin-password': '"rowan init --admin-password-file FILE" takes it from a file',
};

/** Returns an error of commander as a sentence. An `InvalidArgumentError` says what the value is not. */
function rewordError(text: string): string {
  const unknownOption = /^error: unknown option '(--[a-z-]+)/.exec(text)?.[1];
  const hint = unknownOption && OPTION_HINTS[unknownOption];
  if (hint) return `rowan: unknown option '${unknownOption}'; ${hint}\n`;
  return text
    .replace(/^error: command-argument value ('.*') is invalid for argument '[^']*'\./s, 'rowan: $1')
    .replace(/^error: option '([^ ']+)[^']*' argument ('.*') is invalid\./s, 'rowan: $1: $2')
    .replace(/ Allowed choices are (.*)\.$/m, ' is none of $1')
    .replace(/^error: /, 'rowan: ');
}

/** Groups the items of a help text by heading. Options of the command itself, `--help` among them, come first. */
const groupOwnFirst: Help['groupItems'] = (_items, visibleItems, getGroup) =>
  Help.prototype.groupItems(visibleItems.toReversed(), visibleItems, getGroup);

/**
 * Creates the program with the command `commandName`, or with all commands if there is no such command. Commander
 * prints its own errors and throws `CommanderError`.
 */
async function createProgram(commandName: string | undefined): Promise<Command> {
  const program = new Command('rowan')
    .description('An LDAP directory server')
    .version(VERSION)
    .addHelpText('after', EXAMPLES)
    .configureOutput({ outputError: (text, write) => write(rewordError(text)) })
    .configureHelp({ groupItems: groupOwnFirst })
    .enablePositionalOptions()
    .exitOverride();
  const commandNames =
    commandName !== undefined && Object.hasOwn(COMMANDS, commandName) ? [commandName] : Object.keys(COMMANDS);
  for (const name of commandNames) (await COMMANDS[name]!())(program);
  return program;
}

/**
 * Ends without an error when the reader of standard output, such as `head`, has closed the pipe. A process that writes
 * finishes its work instead, since it may be in the midst of a commit. So does one whose standard error is closed.
 */
function endQuietlyOnClosedPipe(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (!isWriter()) process.exit(ExitCode.ok);
  });
  process.stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

/** Runs the command line. Errors are printed and set the exit code. */
export async function run(): Promise<void> {
  endQuietlyOnClosedPipe();
  suppressLmdbErrors();
  setUncaughtReporter(reportUnexpected);
  const audit = new CommandAudit();
  try {
    const program = await createProgram(process.argv[2]);
    program.hook('preAction', (_program, command) => audit.begin(command));
    await program.parseAsync();
    await audit.end();
  } catch (error) {
    await audit.end(error);
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? ExitCode.ok : ExitCode.usage;
    else process.exitCode = reportError(error);
  }
}

/** Commands that change no directory, or that leave the audit to the server which they are or ask. */
const UNAUDITED: ReadonlySet<string> = new Set([
  ...[
    'serve',
    'quickstart',
    'export',
    'search',
    'changes',
    'backup',
    'verify',
    'compare',
    'check',
    'warm',
    'explain',
    'config',
    'tail',
    'top',
    'doctor',
  ],
  ...['index list', 'index proposals', 'unique show', 'references show', 'number show', 'schema show', 'deleted list'],
  ...['config get', 'config set', 'config unset'],
  ...[
    'replica init',
    'replica status',
    'jobs list',
    'account show',
    'account password list',
    'hbase schema',
    'hbase verify',
  ],
  ...['access show', 'access diff', 'access history', 'access explain', 'access test', 'access from-slapd'],
]);

/** Writes a record into the audit log when a command that changes a directory begins, and a record when it ends. */
class CommandAudit {
  /** Undefined: the command is not audited. */
  #log: CommandAuditLog | undefined;

  async begin(command: Command): Promise<void> {
    if (UNAUDITED.has(nameOf(command))) return;
    const file = command.getOptionValue('config') as string | undefined;
    const { config } = loadConfig({ file, env: process.env, flags: flagValues(command) });
    this.#log = new CommandAuditLog(config);
    await this.#write('begins');
  }

  /** `error`: the reason of a failure. */
  async end(error?: unknown): Promise<void> {
    if (error !== undefined) await this.#write(`failed: ${describeError(error)}`);
    else await this.#write(process.exitCode ? `ended with exit code ${process.exitCode}` : 'done');
  }

  /** A record that cannot be written is reported, and stops no command. */
  async #write(result: string): Promise<void> {
    if (this.#log === undefined) return;
    const words = process.argv.slice(2).map((word) => (/^[\w.,:=@/-]+$/.test(word) ? word : JSON.stringify(word)));
    const user = `${currentUser()}, pid ${process.pid}`;
    await this.#log.append(`${formatAuditComments({ user, command: `rowan ${words.join(' ')}`, result })}\n`);
  }
}

/** `index add` for `rowan index add`. */
function nameOf(command: Command): string {
  const parent = command.parent?.parent ? `${nameOf(command.parent)} ` : '';
  return parent + command.name();
}
