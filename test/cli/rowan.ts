import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { waitFor } from '../waits.js';
import { MARK, type Task } from './runner.js';

export const SUFFIX = 'dc=example,dc=com';
export const PEOPLE = `ou=people,${SUFFIX}`;
export const ADMIN = `cn=admin,${SUFFIX}`;
export const PASSWORD = 'correct horse';
/** A person of the sample directory. */
export const ADA = `uid=ada,${PEOPLE}`;

const root = fileURLToPath(new URL('../../../', import.meta.url));
/** What the launcher runs with Node. */
export const MAIN = fileURLToPath(new URL('../../bundle/cli/main.js', import.meta.url));
export const SAMPLE = join(root, 'scripts/sample.ldif');
export const LAUNCHER = join(root, 'scripts/rowan.cjs');
/** Writes LDIF of so many people below the suffix. */
export const PEOPLE_SCRIPT = join(root, 'scripts/people.mjs');

export interface Ended {
  /** Exit code; -1 when a signal ended it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** Of a server. */
export interface ServeOptions extends RunOptions {
  /** The Node that runs it; absent: that of the tests. */
  readonly node?: string;
}

/** The variables of this process without those that would steer Rowan. */
function cleanEnvironment(extra: Readonly<Record<string, string>> = {}): Record<string, string | undefined> {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('ROWAN_'));
  return { ...Object.fromEntries(kept), ...extra };
}

/** Runs any program to its end, with standard input closed after `input`. */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const child = spawn(program, args, { stdio: 'pipe', env: cleanEnvironment(options.env), cwd: options.cwd });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (data: Buffer) => out.push(data));
  child.stderr.on('data', (data: Buffer) => err.push(data));
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? '');
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      resolve({ code: code ?? -1, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() });
    });
  });
  return waitFor(`the end of ${program} ${args.join(' ')}`, ended);
}

/** `rowan ARGS` in a process of its own. */
export function rowan(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return run(process.execPath, [MAIN, ...args], options);
}

/** The process in which `rowanDoes` runs commands; undefined before the first one and after its end. */
let runner: ChildProcess | undefined;
let isRunnerBusy = false;

/** Without the flags of this process, with which V8 does not take the compiled code of the program. */
function startRunner(): ChildProcess {
  const child = fork(fileURLToPath(new URL('runner.js', import.meta.url)), { silent: true, execArgv: [] });
  child.once('exit', () => {
    runner = undefined;
  });
  // It does not keep the process of the tests.
  for (const handle of [child, child.stdout as Socket, child.stderr as Socket]) handle.unref();
  return child;
}

/** Reads until `MARK`. What follows the mark, a warning of Node's say, is left for the next read. */
export function readUntilMark(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  return new Promise((resolve) => {
    stream.on('data', function read(data: Buffer) {
      const end = data.indexOf(MARK);
      chunks.push(end < 0 ? data : data.subarray(0, end));
      if (end < 0) return;
      stream.off('data', read);
      stream.pause();
      if (end + MARK.length < data.length) stream.unshift(data.subarray(end + MARK.length));
      resolve(Buffer.concat(chunks).toString());
    });
    stream.resume();
  });
}

/** Runs a command in the process that has run others. Rejects if it ends the process. */
async function runWarm(args: readonly string[], { env, cwd, input }: RunOptions): Promise<Ended> {
  runner ??= startRunner();
  const child = runner;
  const ending = new AbortController();
  const exit = once(child, 'exit', ending).then(([code, signal]) => {
    throw new Error(`rowan ${args.join(' ')} ended the process that runs commands, with ${signal ?? `code ${code}`}`);
  });
  isRunnerBusy = true;
  try {
    child.channel?.ref();
    const ended = Promise.all([
      once(child, 'message', ending),
      readUntilMark(child.stdout!),
      readUntilMark(child.stderr!),
    ]);
    child.send({ args, env: cleanEnvironment(env), cwd: cwd ?? process.cwd(), input: input ?? '' } satisfies Task);
    const [[code], stdout, stderr] = await waitFor(`the end of rowan ${args.join(' ')}`, Promise.race([ended, exit]));
    return { code, stdout, stderr };
  } finally {
    isRunnerBusy = false;
    exit.catch(() => undefined);
    ending.abort();
    child.channel?.unref();
  }
}

/**
 * `rowan ARGS` that must end well; its standard output. It runs in a process that has run other commands; in one of its
 * own if that is busy.
 */
export async function rowanDoes(args: readonly string[], options: RunOptions = {}): Promise<string> {
  const ended = await (isRunnerBusy ? rowan(args, options) : runWarm(args, options));
  expect(ended.code, `rowan ${args.join(' ')}\n${ended.stdout}${ended.stderr}`).to.equal(0);
  return ended.stdout;
}

const started = new Set<ChildProcess>();

/** Ends what tests have left running. */
function endStarted(): Promise<unknown> {
  for (const child of started) child.kill('SIGKILL');
  return Promise.all([...started].map(exited));
}

/** A process that a test ends by a signal. */
export function startRowan(args: readonly string[], options: ServeOptions = {}): ChildProcess {
  return startProgram(options.node ?? process.execPath, [MAIN, ...args], options);
}

export function startProgram(program: string, args: readonly string[], options: RunOptions = {}): ChildProcess {
  const child = spawn(program, args, { stdio: 'pipe', env: cleanEnvironment(options.env), cwd: options.cwd });
  started.add(child);
  child.once('exit', () => started.delete(child));
  return child;
}

export function exited(child: ChildProcess): Promise<number | NodeJS.Signals> {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  if (child.signalCode !== null) return Promise.resolve(child.signalCode);
  const exit = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? signal ?? -1));
  });
  return waitFor(`the exit of process ${child.pid}`, exit);
}

/** Waits until the condition holds; fails when the process ends before. */
export async function until(child: ChildProcess, condition: () => boolean): Promise<void> {
  while (!condition()) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error('the process ended before it was where the test waits for it');
    await sleep(5);
  }
}

/** Waits for a text on standard output or standard error; all that was said until then. */
export async function heard(child: ChildProcess, text: string): Promise<string> {
  let said = '';
  const hear = (data: Buffer): void => {
    said += data;
  };
  child.stdout?.on('data', hear);
  child.stderr?.on('data', hear);
  await waitFor(
    `"${text}" from process ${child.pid}`,
    until(child, () => said.includes(text)),
  );
  return said;
}

export interface RunningServer {
  readonly process: ChildProcess;
  /** The line it prints when ready. */
  readonly ready: string;
  /** Its listeners, as printed. */
  readonly urls: readonly string[];
  /** Of the first listener. */
  readonly url: string;
  readonly port: number;
  /** Ends it with SIGTERM; its exit code. */
  stop(): Promise<number | NodeJS.Signals>;
}

/** `rowan serve ARGS` on a folder or an `hbase://` URL, once it is ready; listens on a free port unless told where. */
export async function serve(
  data: string,
  args: readonly string[] = [],
  options: ServeOptions = {},
): Promise<RunningServer> {
  const listen = args.includes('--listen') ? [] : ['--listen', 'ldap://127.0.0.1:0'];
  const where = [data.startsWith('hbase:') ? '--store' : '--data', data];
  const child = startRowan(['serve', ...where, ...listen, ...args], options);
  const said = await heard(child, ' suffixes ');
  const ready = /^rowan ready: .*$/m.exec(said)![0];
  const urls = ready.split(' ').filter((word) => /^ldap[si]?:\/\//.test(word));
  return {
    process: child,
    ready,
    urls,
    url: urls[0]!,
    port: Number(new URL(urls[0]!).port),
    async stop() {
      child.kill('SIGTERM');
      return exited(child);
    },
  };
}

let empty: Promise<string> | undefined;
let sample: Promise<string> | undefined;

/** Data folder with an empty directory, made once in a run and copied from. */
async function makeEmptyDirectory(): Promise<string> {
  const original = new Sandbox();
  process.once('exit', () => rmSync(original.folder, { recursive: true, force: true }));
  await rowanDoes(['init', '--data', original.data, '--suffix', SUFFIX, '--admin-dn', ADMIN], {
    env: { ROWAN_ADMIN_PASSWORD: PASSWORD },
  });
  return original.data;
}

/** Data folder with the sample directory, made once in a run and copied from. */
async function makeSampleDirectory(): Promise<string> {
  const original = new Sandbox();
  process.once('exit', () => rmSync(original.folder, { recursive: true, force: true }));
  await original.init();
  await rowanDoes(['import', '--data', original.data, SAMPLE]);
  return original.data;
}

/** A folder that is gone after the suite, with an empty directory or the sample in it. */
export class Sandbox {
  #folder: string | undefined;
  #server: RunningServer | undefined;

  get folder(): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'rowan-cli-'));
    return this.#folder;
  }

  get data(): string {
    return this.path('data');
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  async init(): Promise<void> {
    empty ??= makeEmptyDirectory();
    cpSync(await empty, this.data, { recursive: true });
  }

  async initSample(): Promise<void> {
    sample ??= makeSampleDirectory();
    cpSync(await sample, this.data, { recursive: true });
  }

  async serve(args: readonly string[] = [], options: ServeOptions = {}): Promise<RunningServer> {
    this.#server = await serve(this.data, args, options);
    return this.#server;
  }

  async remove(): Promise<void> {
    await this.#server?.stop();
    await endStarted();
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }
}
