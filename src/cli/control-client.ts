import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import type { Config } from '../server/settings/index.js';
import { addSettingFlags } from './config/index.js';
import { CliError, describeError, UsageError } from './exit.js';
import { answeredSockets, type ControlSocket, controlFolder } from './http/control-socket.js';
import { directoryCommand, loadSettings } from './options.js';

/** Adds a command that asks a running server: a command on a directory with `--control-folder` and `--pid`. */
export function controlCommand(parent: Command, name: string, description: string, examples = ''): Command {
  const command = directoryCommand(parent, name, description, examples);
  return addSettingFlags(command, ['control.folder']).option(
    '--pid <number>',
    'process id of the server, if several run',
  );
}

/** Time in which a server has to answer a request with a body, in milliseconds. */
const BODY_MS = 2000;

/** Asks the running server of a directory through its control socket. */
export class ControlClient {
  readonly #socket: ControlSocket;

  constructor(socket: ControlSocket) {
    this.#socket = socket;
  }

  /** Process id of the server. */
  get pid(): number {
    return this.#socket.pid;
  }

  /** Finds all running servers of the directory in `config`. */
  static async findAll(config: Config): Promise<ControlClient[]> {
    return (await answeredSockets(config)).map((socket) => new ControlClient(socket));
  }

  /** Finds the server that the options of a `controlCommand` mean. Rejects when no server or several servers fit. */
  static async find(command: Command): Promise<ControlClient> {
    const { config } = loadSettings(command);
    const folder = controlFolder(config);
    if (folder === undefined)
      throw new UsageError(
        'no server to ask: give --data <dir>, or for a directory in HBase --control-folder <dir> as the server has it',
      );
    const pid = command.getOptionValue('pid') as string | undefined;
    const clients = (await ControlClient.findAll(config)).filter((one) => pid === undefined || String(one.pid) === pid);
    const [client, ...others] = clients;
    if (!client)
      throw new CliError(
        `no server${pid === undefined ? '' : ` with pid ${pid}`} answers in ${folder}: is it running, with this data folder and this control.folder?`,
      );
    if (others.length === 0) return client;
    throw new UsageError(`several servers run here; choose by --pid: ${clients.map((one) => one.pid).join(', ')}`);
  }

  /** Resolves with the text of the response. Rejects with the server's message when the server refuses. */
  async request(method: 'GET' | 'POST', path: string, body?: string): Promise<string> {
    return text(await this.open(method, path, body));
  }

  /** As `request`, but resolves with the response as soon as the response begins. */
  async open(method: 'GET' | 'POST', path: string, body?: string): Promise<IncomingMessage> {
    const { path: socketPath, pid } = this.#socket;
    const signal = body === undefined ? undefined : AbortSignal.timeout(BODY_MS);
    // Without an agent: the server may just be closing the idle connection of an earlier request.
    const sentRequest = request({ socketPath, method, path, signal, agent: false });
    sentRequest.end(body);
    let response: IncomingMessage;
    try {
      [response] = (await once(sentRequest, 'response')) as [IncomingMessage];
    } catch (error) {
      const problem = signal?.aborted ? 'it does not answer' : describeError(error);
      throw new CliError(`the server (pid ${pid}) cannot be asked: ${problem}`, { cause: error });
    }
    if (response.statusCode === 200) return response;
    throw new CliError((await text(response)).trim());
  }
}
