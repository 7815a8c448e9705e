import { connect, createServer } from 'node:net';
import { exited, startProgram, until } from '../cli/rowan.js';

export interface RunningSlapd {
  readonly url: string;
  readonly port: number;
  stop(): Promise<unknown>;
}

/** Debian's slapd on a free port, with this configuration file. */
export async function startSlapd(conf: string): Promise<RunningSlapd> {
  const port = await freePort();
  const url = `ldap://127.0.0.1:${port}`;
  const child = startProgram('slapd', ['-f', conf, '-h', url, '-d', '0']);
  let listening = false;
  const attempt = (): void => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      listening = true;
      socket.destroy();
    });
    socket.once('error', () => setTimeout(attempt, 5));
  };
  attempt();
  await until(child, () => listening);
  const stop = (): Promise<unknown> => {
    child.kill('SIGTERM');
    return exited(child);
  };
  return { url, port, stop };
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
