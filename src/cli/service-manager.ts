import { execFile } from 'node:child_process';
import type { Logger } from 'pino';

/**
 * Tells systemd that the server is ready (`Type=notify`), and from then on feeds its watchdog from the event loop,
 * twice in `WATCHDOG_USEC` microseconds: systemd restarts a process whose event loop stands still. Does nothing without
 * systemd. See sd_notify(3) and sd_watchdog_enabled(3).
 */
export function notifyReady(log: Logger): void {
  const { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID = process.pid } = process.env;
  if (!NOTIFY_SOCKET) return;
  notify('READY=1', log);
  const intervalMs = Number(WATCHDOG_USEC) / 1000 / 2;
  const isWatched = intervalMs > 0 && Number(WATCHDOG_PID) === process.pid;
  if (isWatched) setInterval(() => notify('WATCHDOG=1', log), intervalMs).unref();
}

/** Sends a message by way of systemd's own program, since Node has no datagram sockets of the Unix domain. */
function notify(message: string, log: Logger): void {
  const handleEnd = (error: unknown): void => {
    if (error) log.error({ reason: (error as Error).message }, `systemd could not be told ${message}`);
  };
  try {
    execFile('systemd-notify', [message], handleEnd);
  } catch (error) {
    // Node throws some of the failures to start a program.
    handleEnd(error);
  }
}
