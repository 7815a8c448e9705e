/**
 * The process in which `rowanDoes` runs commands one after another, without the start of a program for each. It gets
 * messages `Task` and answers each with the exit code, after `MARK` on standard output and standard error.
 */
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

export interface Task {
  /** Arguments of `rowan`. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Standard input. */
  readonly input: string | Uint8Array;
}

/** Ends what a command prints. */
export const MARK = '\0';

async function runCommands(): Promise<void> {
  const program = fileURLToPath(new URL('../../../scripts/program.cjs', import.meta.url));
  const main = fileURLToPath(new URL('../../bundle/cli/main.js', import.meta.url));
  const { run } = await createRequire(import.meta.url)(program)
    .program()
    .main();
  const print = console.error;
  // The tests have ended in the midst of a command, which may be in a commit (`src/cli/last-resort.ts`).
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  process.on('message', async ({ args, env, cwd, input }: Task) => {
    process.argv.splice(1, Number.POSITIVE_INFINITY, main, ...args);
    process.env = { ...env };
    process.chdir(cwd);
    Object.defineProperty(process, 'stdin', { value: Readable.from([Buffer.from(input)]), configurable: true });
    await run();
    const code = Number(process.exitCode ?? 0);
    // What each command sets up in its process would pile up here.
    process.exitCode = undefined;
    process.stdout.removeAllListeners('error');
    console.error = print;
    process.stdout.write(MARK);
    process.stderr.write(MARK);
    process.send!(code);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await runCommands();
