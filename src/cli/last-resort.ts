import { ExitCode, reportError } from './exit.js';

type Report = (error: unknown) => void;

let report: Report | undefined;

/**
 * What nobody caught ends the process: nothing is known any more of what it was about. `tell` is told first, or the
 * standard error. A later call replaces the one before.
 */
export function endWhenUncaught(tell: Report): void {
  if (!report) {
    process.on('uncaughtException', end);
    process.on('unhandledRejection', end);
  }
  report = tell;
}

function end(error: unknown): void {
  try {
    report!(error);
  } catch {
    reportError(error);
  } finally {
    process.exit(ExitCode.failure);
  }
}
