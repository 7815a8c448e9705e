import { LdapError } from '../ldap/ldap-error.js';
import { storeFailureOf } from '../partition/model/store-errors.js';
import { StoreError, type StoreErrorCode } from '../store/store-error.js';

export const ExitCode = { ok: 0, failure: 1, usage: 2 } as const;

export class CliError extends Error {
  override readonly name: string = 'CliError';
  readonly exitCode: number;

  constructor(message: string, options: { exitCode?: number; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.exitCode = options.exitCode ?? ExitCode.failure;
  }
}

/** The command line is wrong: exit code 2. */
export class UsageError extends CliError {
  override readonly name = 'UsageError';

  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { ...options, exitCode: ExitCode.usage });
  }
}

const SYSTEM_ERRORS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EADDRINUSE: 'the address is in use already; is another server running?',
  EADDRNOTAVAIL: 'this machine does not have that address',
  EEXIST: 'exists already',
  EISDIR: 'is a folder, not a file',
  ENOENT: 'no such file or folder',
  ENOSPC: 'no room left on the device',
  ENXIO: 'no such device, or a FIFO that no program reads',
  ENOTDIR: 'is not a folder',
  EPERM: 'not permitted',
  EROFS: 'its file system is mounted read-only',
};

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === 'string' && 'syscall' in error;
}

/** Remedies, appended to the message of a store failure. */
const REMEDIES: Partial<Record<StoreErrorCode, string>> = {
  missing: '; "rowan check" says what that means, and "rowan repair" what can be made anew',
  noTable:
    '; over HBase "rowan hbase verify" names the command that makes it, and "rowan repair" fills what can be worked out from the entries',
};

/** Describes an error for people in one line. A `ConfigError` has one line for each mistake. */
export function describeError(error: unknown): string {
  const failure = storeFailureOf(error);
  if (failure) return `${failure.message}${REMEDIES[failure.code] ?? ''}`;
  if (error instanceof LdapError) return `${inWords(error.message)} (${error.result})`;
  if (error instanceof CliError || error instanceof StoreError) return error.message;
  if (isSystemError(error)) {
    const reason = SYSTEM_ERRORS[error.code ?? ''] ?? error.message;
    const place = error.path ?? (error as { address?: string }).address;
    return place === undefined ? reason : `${place}: ${reason}`;
  }
  return inWords(error instanceof Error ? error.message : String(error));
}

/** Puts the words of `SYSTEM_ERRORS` in place of those of Node.js: `ENOENT: no such file or directory, stat 'x'`. */
function inWords(text: string): string {
  return text.replace(/\b(E[A-Z]+): [^,]*, \w+(?: '[^']*')?/, (words, code: string) => SYSTEM_ERRORS[code] ?? words);
}

/** Prints the error, with the stack under `ROWAN_DEBUG`. Returns the exit code. */
export function reportError(error: unknown): number {
  for (const line of describeError(error).split('\n')) process.stderr.write(`rowan: ${line}\n`);
  if (process.env.ROWAN_DEBUG && error instanceof Error) process.stderr.write(`${error.stack ?? ''}\n`);
  return error instanceof CliError ? error.exitCode : ExitCode.failure;
}

/** Prints an uncaught error with its stack, since it is a bug of the program. */
export function reportUnexpected(error: unknown): void {
  const stack = error instanceof Error ? error.stack : undefined;
  process.stderr.write(`rowan: unexpected error: ${stack ?? describeError(error)}\n`);
}

/** Formats `1234567` as `1,234,567`. The first call of `toLocaleString` would take 35 ms. */
export function formatNumber(count: number): string {
  return String(Math.round(count)).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 entry`, `1,200 entries`. */
export function pluralize(count: number, singular: string, plural = `${singular}s`): string {
  return `${formatNumber(count)} ${count === 1 ? singular : plural}`;
}
