import { connect } from 'node:net';

/** Whether a server answers at a Unix socket. The file of a server that was killed stays. */
export function isSocketAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(true);
    });
    // A server of another user lives, although the connection is not permitted.
    probe.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code !== 'ECONNREFUSED' && code !== 'ENOENT'));
  });
}
