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
