import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Attribute, Change, Client } from 'ldapts';
import {
  ADA,
  ADMIN,
  exited,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowan,
  rowanDoes,
  Sandbox,
  serve,
} from '../cli/rowan.js';
import { freePort } from '../clients/slapd.js';
import { needs } from '../require.js';
import { waitFor } from '../waits.js';

const page = readFileSync(join(fileURLToPath(new URL('../../../', import.meta.url)), 'docs/replicas.md'), 'utf8');
const GRACE = `uid=grace,${PEOPLE}`;

interface Step {
  readonly machine: 'first' | 'second';
  /** The words of a command. */
  readonly words: readonly string[];
}

/** The commands of a recipe of the page, in their order, each at the machine that the text before it names. */
function recipe(title: string): Step[] {
  const text = new RegExp(`^### ${title}\n([\\s\\S]*?)^##`, 'm').exec(page)![1]!;
  const steps: Step[] = [];
  let machine: Step['machine'] = 'first';
  for (const paragraph of text.replaceAll('\\\n', ' ').split('\n\n')) {
    const named = /\b[Oo]n\s+the\s+(?:new\s+)?(first|second)\s+machine\b[^.]*:$/.exec(paragraph);
    if (named) machine = named[1] as Step['machine'];
    for (const [, command] of paragraph.matchAll(/^ {4}(\S.*)$/gm))
      steps.push({ machine, words: command!.split(/\s+/) });
  }
  return steps;
}

/** One of the two machines of the page: a folder, and a server on a port of its own. */
class Machine {
  readonly folder: string;
  readonly #name: string;
  server: RunningServer | undefined;
  #serveArgs: readonly string[] = [];

  constructor(sandbox: Sandbox, name: string) {
    this.#name = name;
    this.folder = sandbox.path(name);
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  /** Starts the server with the arguments of `rowan serve` on the page, or with the former ones. */
  async start(args = this.#serveArgs): Promise<void> {
    this.#serveArgs = args;
    this.server = await serve(this.data, args.slice(2), { cwd: this.folder });
  }

  async client(ca: string): Promise<Client> {
    const client = new Client({ url: this.server!.url, tlsOptions: { ca: readFileSync(ca) } });
    await client.bind(ADMIN, PASSWORD);
    return client;
  }

  toString(): string {
    return this.#name;
  }
}

describe('replicas: recipes of the page', () => {
  const sandbox = new Sandbox();
  const ca = sandbox.path('ca.pem');
  let machines: Record<Step['machine'], Machine>;
  let ports: Record<Step['machine'], number>;

  before(async function () {
    needs(this, 'openssl');
    await sandbox.initSample();
    const openssl = (...args: string[]): unknown =>
      execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', ...args], {
        stdio: 'ignore',
      });
    const caKey = sandbox.path('ca.key');
    openssl('-nodes', '-subj', '/CN=root', '-addext', 'keyUsage=keyCertSign', '-keyout', caKey, '-out', ca);
    machines = { first: new Machine(sandbox, 'first'), second: new Machine(sandbox, 'second') };
    ports = { first: await freePort(), second: await freePort() };
    for (const { folder } of Object.values(machines)) {
      mkdirSync(folder);
      writeFileSync(join(folder, 'admin.password'), PASSWORD, { mode: 0o600 });
      const files = ['-keyout', join(folder, 'server.key'), '-out', join(folder, 'server.pem')];
      const names = ['-addext', 'basicConstraints=CA:FALSE', '-addext', 'subjectAltName=DNS:localhost'];
      openssl('-nodes', '-subj', '/CN=localhost', ...names, '-CA', ca, '-CAkey', caKey, ...files);
    }
    copyFileSync(ca, join(machines.first.folder, 'ca.pem'));
    execFileSync('mv', [sandbox.data, machines.first.data]);
    const tls = ['--tls-cert', 'server.pem', '--tls-key', 'server.key'];
    await machines.first.start(['--data', 'data', '--listen', `ldaps://localhost:${ports.first}`, ...tls]);
  });
  after(() => sandbox.remove());

  /** Does a command of the page, with the names of the machines replaced; returns what it prints. */
  async function run({ machine: name, words }: Step): Promise<string> {
    const machine = machines[name];
    const [program, ...args] = words.map((word) =>
      word.replace(/(first|second)\.example\.com$/, (_, other: Step['machine']) => `localhost:${ports[other]}`),
    );
    if (program === 'rowan' && args[0] === 'serve') await machine.start(args.slice(1));
    else if (program === 'rowan') return rowanDoes(args, { cwd: machine.folder });
    else if (program === 'systemctl' && args[0] === 'stop') expect(await machine.server!.stop()).to.equal(0);
    else if (program === 'systemctl' && args[0] === 'start') await machine.start();
    else if (program === 'scp') {
      const to = /^(first|second)\./.exec(words.at(-1)!)![1] as Step['machine'];
      for (const file of args.slice(0, -1)) copyFileSync(join(machine.folder, file), join(machines[to].folder, file));
    } else throw new Error(`the test does not know ${program}`);
    return '';
  }

  async function write(machine: Machine, dn: string, value: string): Promise<void> {
    const client = await machine.client(ca);
    const modification = new Attribute({ type: 'description', values: [value] });
    await client.modify(dn, new Change({ operation: 'replace', modification }));
    await client.unbind();
  }

  async function read(machine: Machine, dn: string): Promise<unknown> {
    const client = await machine.client(ca);
    const { searchEntries } = await client.search(dn, { scope: 'base', attributes: ['description'] });
    await client.unbind();
    return searchEntries[0]?.description;
  }

  /** Waits until a machine has the value. */
  async function arrives(machine: Machine, dn: string, value: string): Promise<void> {
    const look = async (): Promise<void> => {
      while ((await read(machine, dn)) !== value);
    };
    await waitFor(`"${value}" at the ${machine} machine`, look());
  }

  it('replica init ends at a mistake that trying again does not mend', async () => {
    const { data, folder } = machines.second;
    const password = join(folder, 'wrong.password');
    writeFileSync(password, 'wrong', { mode: 0o600 });
    const init = async (url: string, ...args: string[]): Promise<string> => {
      const access = ['--of', url, '--name', 'second', '--password-file', password];
      const { code, stderr } = await rowan(['replica', 'init', '--data', data, ...access, ...args]);
      expect(code).to.equal(1);
      return stderr;
    };
    const url = `ldaps://localhost:${ports.first}`;
    expect(await init(url, '--tls-ca', ca)).to.equal(
      `rowan: ${url} knows no replica second with the password in ${password}; "rowan replica grant" there makes one\n`,
    );
    const hint = '; --tls-ca names the file with the certificate of its authority\n';
    expect(await init(url))
      .to.contain(`rowan: ${url}: `)
      .and.contain(hint);
    expect(await init(url, '--tls-ca', join(folder, 'server.pem'))).to.contain(hint);
    const missing = join(folder, 'missing.pem');
    expect(await init(url, '--tls-ca', missing)).to.equal(`rowan: ${missing} cannot be read: ENOENT\n`);
    const otherName = await init(`ldaps://127.0.0.1:${ports.first}`, '--tls-ca', ca);
    expect(otherName).to.contain('Name a host of the certificate in the URL');
    expect(existsSync(data)).to.equal(false);
  });

  it('a second machine', async () => {
    const said: string[] = [];
    for (const step of recipe('A second machine')) said.push(await run(step));
    expect(said.at(-2)).to.match(/^replica/);
    expect(said.at(-1)).to.match(/^equal: \d+ entries/);
    await write(machines.second, ADA, 'written at the second machine');
    expect(await read(machines.first, ADA)).to.equal('written at the second machine');
    await write(machines.first, ADA, 'written at the first machine');
    await arrives(machines.second, ADA, 'written at the first machine');
  });

  it('hand over for maintenance', async () => {
    for (const step of recipe('Hand over for maintenance')) {
      if (step.words[0] === 'systemctl' && step.words[1] === 'start')
        await write(machines.second, ADA, 'during the work');
      if (step.words[0] === 'rowan' && step.machine === 'first') await arrives(machines.first, ADA, 'during the work');
      const said = await run(step);
      if (step.words[0] === 'rowan') expect(said).to.match(/primary of term \d/);
    }
    await write(machines.first, GRACE, 'after the work');
    await arrives(machines.second, GRACE, 'after the work');
  });

  it('the first machine burnt down', async () => {
    machines.first.server!.process.kill('SIGKILL');
    await exited(machines.first.server!.process);
    rmSync(machines.first.data, { recursive: true });
    rmSync(join(machines.first.folder, 'ca.pem'));
    for (const step of recipe('The first machine burnt down')) await run(step);
    expect(existsSync(machines.first.data)).to.equal(true);
    expect(await read(machines.first, GRACE)).to.equal('after the work');
    await write(machines.first, GRACE, 'two machines again');
    expect(await read(machines.second, GRACE)).to.equal('two machines again');
    expect(await rowanDoes(['replica', 'status', '--data', machines.second.data])).to.match(
      /^primary, .*\nreplica first/,
    );
    for (const { server } of Object.values(machines)) await server!.stop();
    const [first, second] = Object.values(machines).map(({ data }) => rowanDoes(['export', '--data', data]));
    expect(await first).to.equal(await second);
  });
});
