import { fork } from 'node:child_process';
import { ExitCode } from '../exit.js';

/** Environment variable of the child process that reads for `rowan check`. */
const READER_VARIABLE = 'READER_OF_ROWAN_CHECK';

export function isReader(): boolean {
  return process.env[READER_VARIABLE] === '1' && process.send !== undefined;
}

/** Exits this process when its parent disconnects. Returns a function that stops this. */
export function endWithParent(): () => void {
  const exit = (): void => process.exit(ExitCode.failure);
  process.once('disconnect', exit);
  return () => {
    process.off('disconnect', exit);
    if (process.connected) process.disconnect();
  };
}

export function reportTable(table: string): void {
  process.send?.(table);
}

/**
 * Runs this command line again in a child process that reads the directory, since damage in a file mapped by LMDB can
 * crash the reader. Resolves with the exit code. Prints a message when a signal has ended the child.
 */
export function runInChild(): Promise<number> {
  const child = fork(process.argv[1]!, process.argv.slice(2), {
    env: { ...process.env, [READER_VARIABLE]: '1' },
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
      if (signal) printSignal(signal, table);
      resolve(code ?? ExitCode.failure);
    });
  });
}

function printSignal(signal: NodeJS.Signals, table: string | undefined): void {
  const place = table === undefined ? 'before it had read anything' : `while it read table ${table}`;
  const consequence = ['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE'].includes(signal)
    ? ': the data file is damaged there, and what stands behind it was not looked at; restore a backup, or export what can be read and import it'
    : '; nothing is known of what was not read';
  process.stderr.write(`rowan: the process that reads the directory was ended by ${signal} ${place}${consequence}\n`);
}
