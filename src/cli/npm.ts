import { readFileSync } from 'node:fs';

/** Milliseconds between two checks for npm. */
const POLL_MS = 300;

/** Returns the parent of a process; undefined without `/proc`. */
function parentPidOf(pid: number): number | undefined {
  try {
    // The process name, in parentheses, may contain anything. State and parent follow it.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    // The process has ended, or there is no `/proc`.
    return undefined;
  }
}

/** Whether the process is a shell that runs a command line (`-c`). */
function isShell(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')[1] === '-c';
  } catch {
    // The process has ended, or there is no `/proc`.
    return false;
  }
}

/**
 * Calls `onEnd` when npm, or the shell in which npm runs a script, has ended. Only applies if `npx rowan`, `npm start`
 * or another script that names rowan has started this process. On SIGTERM npm signals only its shell, which dies
 * without notifying this process. A script that puts rowan into the background with `&` wants rowan to outlive npm:
 * nothing is watched then, nor without npm. Returns a function that stops watching.
 */
export function watchNpm(onEnd: () => void): () => void {
  const script = process.env.npm_lifecycle_script ?? '';
  if (!/\browan\b/.test(script) || /(?<![&>])&(?![&>])/.test(script)) return () => undefined;
  const parentPid = process.ppid;
  const npmPid = isShell(parentPid) ? parentPidOf(parentPid) : undefined;
  const timer = setInterval(() => {
    if (process.ppid === parentPid && (npmPid === undefined || parentPidOf(parentPid) === npmPid)) return;
    clearInterval(timer);
    onEnd();
  }, POLL_MS).unref();
  return () => clearInterval(timer);
}
