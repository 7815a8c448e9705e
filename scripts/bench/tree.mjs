/** npm run bench -- tree: how long a tree delete takes, and how long others wait meanwhile. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Client, Control } from 'ldapts';
import { compileLoad, makePeople } from './load.mjs';
import { formatRows } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan } from './servers.mjs';

const USAGE = `npm run bench -- tree [options]
  --entries N      people below the entry that is deleted (100000)
`;
const TREE_DELETE = '1.2.840.113556.1.4.805';

async function connected(server) {
  const client = new Client({ url: `ldap://127.0.0.1:${server.port}` });
  await client.bind(ADMIN, server.password);
  return client;
}

/** Number of the last change. Each deleted entry is a change. */
async function lastChange(client) {
  const { searchEntries } = await client.search('cn=changelog', { scope: 'base', attributes: ['lastChangeNumber'] });
  return Number(searchEntries[0].lastChangeNumber);
}

/** Searches one after another until `isOver` is true. Returns their durations in milliseconds, rising. */
async function searchOn(client, isOver) {
  const taken = [];
  while (!isOver()) {
    const begin = performance.now();
    await client.search(BASE, { scope: 'base' });
    taken.push(performance.now() - begin);
  }
  return taken.sort((a, b) => a - b);
}

async function measure(server, entries) {
  const [client, other] = [await connected(server), await connected(server)];
  try {
    const first = await lastChange(client);
    let isOver = false;
    const searches = searchOn(other, () => isOver);
    const begin = performance.now();
    await client.del(`ou=people,${BASE}`, [new Control(TREE_DELETE, { critical: true })]);
    const answered = performance.now() - begin;
    while ((await lastChange(client)) <= first + entries) await new Promise((resolve) => setTimeout(resolve, 50));
    const done = performance.now() - begin;
    isOver = true;
    return { answered, done, taken: await searches };
  } finally {
    await client.unbind();
    await other.unbind();
  }
}

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: { entries: { type: 'string', default: '100000' }, help: { type: 'boolean', default: false } },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const entries = Number(values.entries);
  compileLoad(root);
  const folder = mkdtempSync(join(tmpdir(), 'rowan-tree-'));
  const server = new Rowan(join(folder, 'rowan'), root);
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'people.ldif');
  makePeople(root, entries, file);
  server.load(file);
  await server.start();
  const { answered, done, taken } = await measure(server, entries);
  await server.stop();
  const at = (share) => `${taken[Math.min(taken.length - 1, Math.floor(share * taken.length))].toFixed(1)} ms`;
  const rows = [
    [`tree delete of ${entries.toLocaleString('en-US')}`, 'Rowan'],
    ['answered, and no reader finds an entry', `${answered.toFixed(0)} ms`],
    ['each entry deleted, with its change record', `${(done / 1000).toFixed(1)} s`],
    ['base search by another client meanwhile: median', at(0.5)],
    ['99 of 100', at(0.99)],
    ['the longest', at(1)],
  ];
  process.stdout.write(`\n${formatRows(rows)}\n`);
}
