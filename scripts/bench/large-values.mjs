/** The memory for one large value: the peak of each operation, and that of an idle server. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { processes } from './machine.mjs';
import { ADMIN, BASE } from './rows.mjs';

const MIB = 1024 * 1024;
const EVERY_MS = 2;
const PASSWORD = 'secret';
const DN = `uid=large,${BASE}`;

/** Returns the private memory of a process and its children in MiB, without mapped files. */
function ownMemory(pid) {
  try {
    const status = processes(pid).map((one) => readFileSync(`/proc/${one}/status`, 'latin1'));
    return status.reduce((sum, text) => sum + Number(/^RssAnon:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) / 1024, 0);
  } catch {
    // One of the processes has ended meanwhile.
    return 0;
  }
}

/** Returns the peak of private memory in MiB while `work` runs. */
async function peak(pid, work) {
  let most = ownMemory(pid);
  const timer = setInterval(() => {
    most = Math.max(most, ownMemory(pid));
  }, EVERY_MS);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return most;
}

/**
 * Returns rows `{ title, peak, idle }` of private memory in MiB, one per operation on a value of `size` MiB. `root` is
 * the compiled checkout. `say` receives each row when it is done.
 */
export async function largeValueRows(root, { size = 100, say = () => undefined } = {}) {
  const { RawClient } = await import(join(root, 'dist/test/server/raw-client.js'));
  const folder = mkdtempSync(join(tmpdir(), 'rowan-large-'));
  const [data, file] = [join(folder, 'data'), join(folder, 'out.ldif')];
  const started = new Set();
  const rows = [];
  let idle = 0;
  const add = (title, most) => {
    rows.push({ title, peak: most, idle });
    say(`${title}: ${most.toFixed(0)} MiB, ${(most - idle).toFixed(0)} above ${idle.toFixed(0)}`);
  };

  function start(...args) {
    const env = { ...process.env, ROWAN_ADMIN_PASSWORD: PASSWORD };
    const child = spawn(process.execPath, [join(root, 'scripts/rowan.cjs'), ...args], { env, stdio: 'pipe' });
    started.add(child);
    child.said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (child.said += piece));
    child.ended = new Promise((resolve) => child.once('close', (code) => resolve(started.delete(child) && code)));
    return child;
  }

  async function ends(child) {
    const code = await child.ended;
    if (code !== 0) throw new Error(`${child.spawnargs.join(' ')} ended with ${code}: ${child.said}`);
    return child.said;
  }

  const does = (...args) => ends(start(...args, '--data', data));

  async function command(title, ...args) {
    const child = start(...args, '--data', data);
    add(title, await peak(child.pid, () => ends(child)));
  }

  async function asked(client, request) {
    const { code } = await client.request(request);
    if (code !== 0) throw new Error(`${request.op} is answered with ${code}`);
  }

  try {
    await does('init', '--suffix', BASE, '--admin-dn', ADMIN);
    const server = start(
      ...['serve', '--data', data, '--listen', 'ldap://127.0.0.1:0', '--limits-message-bytes', `${size + 28} MiB`],
    );
    while (!server.said.includes(' suffixes ')) {
      if (server.exitCode !== null) throw new Error(server.said);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const client = await RawClient.open(Number(/127\.0\.0\.1:(\d+)/.exec(server.said)[1]));
    if ((await client.bind(ADMIN, PASSWORD)) !== 0) throw new Error('the administrator cannot bind');
    idle = ownMemory(server.pid);
    const attributes = (values) =>
      Object.entries(values).map(([type, value]) => ({ type, values: [Buffer.from(value)] }));
    const suffix = attributes({ objectClass: 'domain', dc: /^dc=([^,]*)/.exec(BASE)[1] });
    await asked(client, { op: 'add', dn: BASE, attributes: suffix });
    const person = attributes({ objectClass: 'inetOrgPerson', uid: 'large', cn: 'large', sn: 'large' });
    await asked(client, { op: 'add', dn: DN, attributes: person });
    const change = { operation: 'replace', attribute: { type: 'jpegPhoto', values: [randomBytes(size * MIB)] } };
    const served = async (title, work) => add(title, await peak(server.pid, work));
    await served('replace, served', () => asked(client, { op: 'modify', dn: DN, changes: [change] }));
    await served('search, served', () => client.search(DN, { attributes: ['jpegPhoto'] }));
    await command('check', 'check');
    await command('export', 'export', '--base', DN, '--output', file);
    await served('delete, served', () => asked(client, { op: 'delete', dn: DN }));
    const [id] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(await does('deleted', 'list'));
    await command('deleted restore', 'deleted', 'restore', id);
    await asked(client, { op: 'delete', dn: DN });
    await does('deleted', 'purge', '--all');
    await command('import', 'import', file);
    client.close();
    server.kill('SIGTERM');
    await server.ended;
    return rows;
  } finally {
    for (const child of started) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}
