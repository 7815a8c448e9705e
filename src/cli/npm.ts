import { readFileSync } from 'node:fs';

/** How often it is looked whether npm is still there, in milliseconds. */
const LOOK_MS = 300;

/** The parent of a process, where the system has `/proc`. */
function parentOf(pid: number): number | undefined {
  try {
    // The name stands in parentheses and may hold anything; state and parent follow.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return undefined;
  }
}

/** Whether the process is a shell that runs the command line it was given. */
function isShell(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')[1] === '-c';
  } catch {
    return false;
  }
}

/**
 * Calls `gone` when npm has ended, or the shell by which npm runs a script, if `npx rowan`, `npm start` or another
 * script that names rowan started this process. npm passes SIGTERM on to its shell alone, and the shell dies of it
 * without a word to this process. A script that puts rowan into the background with `&` means it to live on: then, and
 * without npm, nothing is watched. Returns how to stop watching.
 */
export function whenNpmEnds(gone: () => void): () => void {
  const script = process.env.npm_lifecycle_script ?? '';
  if (!/\browan\b/.test(script) || /(?<![&>])&(?![&>])/.test(script)) return () => undefined;
  const parent = process.ppid;
  const npm = isShell(parent) ? parentOf(parent) : undefined;
  const timer = setInterval(() => {
    if (process.ppid === parent && (npm === undefined || parentOf(parent) === npm)) return;
    clearInterval(timer);
    gone();
  }, LOOK_MS).unref();
  return () => clearInterval(timer);
}
