import { join } from 'node:path';
import { expect } from 'chai';
import { ADMIN, PASSWORD, type RunningServer, rowan, rowanDoes, type Sandbox, serve } from '../cli/rowan.js';
import { RawClient } from '../server/raw-client.js';
import { waitFor } from '../waits.js';

/** A server of a folder in a sandbox, with a TCP listener for clients and a local socket for replicas. */
export class Machine {
  readonly name: string;
  readonly data: string;
  readonly #sandbox: Sandbox;
  #server: RunningServer | undefined;

  /** The machine `data` has the directory of the sandbox. */
  constructor(sandbox: Sandbox, name: string) {
    this.name = name;
    this.#sandbox = sandbox;
    this.data = sandbox.path(name);
  }

  get socketUrl(): string {
    return `ldapi://${encodeURIComponent(join(this.#sandbox.folder, `${this.name}.sock`))}`;
  }

  get server(): RunningServer {
    return this.#server!;
  }

  async start(...args: string[]): Promise<void> {
    this.#server = await serve(this.data, ['--listen', 'ldap://127.0.0.1:0', '--listen', this.socketUrl, ...args]);
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
    this.#server = undefined;
  }

  /** Makes this machine a replica of a running one. */
  async follow(...others: readonly Machine[]): Promise<void> {
    const password = this.#sandbox.path(`${this.name}.password`);
    await rowanDoes(['replica', 'grant', this.name, '--data', others[0]!.data, '--password-file', password]);
    const of = others.map(({ socketUrl }) => socketUrl);
    const args = ['--of', ...of, '--name', this.name, '--password-file', password];
    const { code, stderr } = await rowan(['replica', 'init', '--data', this.data, ...args]);
    expect(code, stderr).to.equal(0);
  }

  /** A client that is bound, by default as the administrator. */
  async client(dn = ADMIN, password = PASSWORD): Promise<RawClient> {
    const client = await RawClient.open(this.server.port);
    expect(await client.bind(dn, password)).to.equal(0);
    return client;
  }

  async status(): Promise<string> {
    return rowanDoes(['replica', 'status', '--data', this.data]);
  }

  /** Waits until this replica has the last change of the primary. */
  async catchesUp(primary: Machine): Promise<void> {
    await this.says(`, change ${/last change (\d+)/.exec(await primary.status())![1]}, 0 changes behind`);
  }

  /** Waits until the status has the text. */
  async says(text: string): Promise<void> {
    const find = async (): Promise<void> => {
      while (!(await this.status()).includes(text));
    };
    await waitFor(`"${text}" in the status of ${this.name}`, find());
  }
}

/** The whole content of a folder as LDIF, with secrets and operational attributes. */
export function contentOf(data: string): Promise<string> {
  return rowanDoes(['export', '--data', data]);
}
