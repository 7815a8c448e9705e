import { fork } from 'node:child_process';
import { ExitCode } from '../exit.js';

/** Set in the process that reads for `rowan check`. */
const READER = 'READER_OF_ROWAN_CHECK';

/** Whether this process is the one that reads. */
export function isReader(): boolean {
  return process.env[READER] === '1' && process.send !== undefined;
}

/** Ends this process when the one that waits for it is gone, until the function that it gives is called. */
export function endWithParent(): () => void {
  const end = (): void => process.exit(ExitCode.failure);
  process.once('disconnect', end);
  return () => {
    process.off('disconnect', end);
    if (process.connected) process.disconnect();
  };
}

/** Tells the process that waits for the reader what it is about. */
export function tellTable(table: string): void {
  process.send?.(table);
}

/**
 * Runs this command line once more, in a process that reads the directory: LMDB maps the file and can be made to crash
 * by what stands in it. Resolves with the exit code; a process that was ended by a signal is told of.
 */
export function readInChild(): Promise<number> {
  const child = fork(process.argv[1]!, process.argv.slice(2), {
    env: { ...process.env, [READER]: '1' },
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  let table: string | undefined;
  child.on('message', (message) => {
    table = String(message);
  });
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, forward);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, forward);
      if (signal) tellDeath(signal, table);
      resolve(code ?? ExitCode.failure);
    });
  });
}

function tellDeath(signal: NodeJS.Signals, table: string | undefined): void {
  const where = table === undefined ? 'before it had read anything' : `while it read table ${table}`;
  const why = ['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE'].includes(signal)
    ? ': the data file is damaged there, and what stands behind it was not looked at; restore a backup, or export what can be read and import it'
    : '; nothing is known of what was not read';
  process.stderr.write(`rowan: the process that reads the directory was ended by ${signal} ${where}${why}\n`);
}
