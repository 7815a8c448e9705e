import { ExitCode, reportError } from './exit.js';

type Report = (error: unknown) => void;

let report: Report | undefined;

/**
 * Ends the process on an uncaught error, since its state is unknown. `reporter` is called first; if it throws, the
 * error goes to standard error. A later call replaces the reporter.
 */
export function setUncaughtReporter(reporter: Report): void {
  if (!report) {
    process.on('uncaughtException', end);
    process.on('unhandledRejection', end);
  }
  report = reporter;
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
