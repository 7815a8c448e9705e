import { ExitCode, reportError } from './exit.js';

type Reporter = (error: unknown) => void;

let currentReporter: Reporter | undefined;

/**
 * Ends the process on an uncaught error, since its state is unknown. `reporter` is called first; if it throws, the
 * error goes to standard error. A later call replaces the reporter.
 */
export function setUncaughtReporter(reporter: Reporter): void {
  if (!currentReporter) {
    process.on('uncaughtException', reportAndExit);
    process.on('unhandledRejection', reportAndExit);
  }
  currentReporter = reporter;
}

function reportAndExit(error: unknown): void {
  try {
    currentReporter!(error);
  } catch {
    // The error that ends the process counts more than that of the reporter.
    reportError(error);
  } finally {
    process.exit(ExitCode.failure);
  }
}
