const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Says `message()`, where it gives any, when a signal ends the process, until the function that it gives is called. */
export function tellInterruption(message: () => string): () => void {
  const end = (signal: NodeJS.Signals): void => {
    const text = message();
    if (text !== '') process.stderr.write(`rowan: ${text}\n`);
    quiet();
    process.kill(process.pid, signal);
  };
  const quiet = (): void => {
    for (const signal of SIGNALS) process.off(signal, end);
  };
  for (const signal of SIGNALS) process.on(signal, end);
  return quiet;
}
