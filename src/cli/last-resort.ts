import { writeSync } from 'node:fs';
import { ExitCode, reportError } from './exit.js';

type Reporter = (error: unknown) => void;

/** Time for which an ending process waits for the reader of a full pipe, and between two attempts, in milliseconds. */
const FULL_PIPE_MS = 2000;
const RETRY_MS = 10;

let currentReporter: Reporter | undefined;
let mayWrite = false;

/** Tells that this process opens a store for writing. From then on `endProcess` ends it with SIGKILL. */
export function noteWriter(): void {
  mayWrite = true;
}

export function isWriter(): boolean {
  return mayWrite;
}

/**
 * Ends the process on an uncaught error, since its state is unknown. `reporter` is called first; if it throws, the
 * error goes to standard error. A later call replaces the reporter.
 */
export function setUncaughtReporter(reporter: Reporter): void {
  if (!currentReporter) {
    process.on('uncaughtException', reportAndEnd);
    process.on('unhandledRejection', reportAndEnd);
  }
  currentReporter = reporter;
}

function reportAndEnd(error: unknown): void {
  endProcess(ExitCode.failure, () => {
    try {
      currentReporter!(error);
    } catch {
      // The error that ends the process counts more than that of the reporter.
      reportError(error);
    }
  });
}

/**
 * Ends the process at once, after `report` and the listeners of `exit`, with `exitCode` if the process only reads.
 * Otherwise the process kills itself: `process.exit` waits for the thread that commits to LMDB, which may wait for this
 * thread, so the process would keep LMDB's write lock for ever. A killed process leaves the store consistent (ADR 22).
 */
export function endProcess(exitCode: number, report?: () => void): never {
  try {
    makeStderrSynchronous();
    report?.();
    if (mayWrite) process.emit('exit', exitCode);
  } finally {
    if (mayWrite) process.kill(process.pid, 'SIGKILL');
    process.exit(exitCode);
  }
}

/** Makes `process.stderr.write` return when the text is written. What a full pipe has not taken in time is lost. */
function makeStderrSynchronous(): void {
  const { stderr } = process;
  const deadlineMs = performance.now() + FULL_PIPE_MS;
  const hasPendingLine = stderr.writableLength > 0;
  stderr.write = (text: string | Uint8Array): boolean => {
    const bytes = Buffer.from(text as Uint8Array);
    for (let at = 0; at < bytes.length; ) {
      try {
        at += writeSync(stderr.fd, bytes, at);
      } catch (error) {
        // EAGAIN: the pipe is full. Node has made it non-blocking.
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > deadlineMs) return false;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      }
    }
    return true;
  };
  // A full pipe may have taken a part of the pending line only.
  if (hasPendingLine) stderr.write('\n');
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Prints `message()`, unless it is empty, when a signal ends the process. Returns a function that removes the handlers.
 */
export function onInterruption(message: () => string): () => void {
  const handleSignal = (signal: NodeJS.Signals): void => {
    const text = message();
    if (text !== '') process.stderr.write(`rowan: ${text}\n`);
    removeHandlers();
    process.kill(process.pid, signal);
  };
  const removeHandlers = (): void => {
    for (const signal of SIGNALS) process.off(signal, handleSignal);
  };
  for (const signal of SIGNALS) process.on(signal, handleSignal);
  return removeHandlers;
}
