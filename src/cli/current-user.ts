import { hostname, userInfo } from 'node:os';

/** Returns `ada@host` for the user who runs the command, or `uid 1000@host`. */
export function currentUser(): string {
  return `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the number of the user may have no name.
    return `uid ${process.getuid?.()}`;
  }
}
