/**
 * npm run bench -- memory: the memory of a server while clients ask for more than it may keep for them, and the memory
 * of each operation on one large value.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { encodeRequest } from '../../dist/src/protocol/encode.js';
import { PEOPLE } from '../../dist/test/cli/rowan.js';
import { personAttributes } from '../../dist/test/server/directory.js';
import { Arena, userDn } from '../../dist/test/server/fairness/arena.js';
import { searchRequest } from '../../dist/test/server/raw-client.js';
import { largeValueRows } from './large-values.mjs';
import { privateMemory } from './machine.mjs';
import { formatRows } from './report.mjs';

const USAGE = `npm run bench -- memory [options]
  --only TEXT      only the loads whose names contain the text
`;
const MIB = 1024 * 1024;
const FLOODS = 3;
const FLOOD = 60;
/** A user's connections with wide searches, the searches of each, and the terms of a search: nearly the most. */
const WIDE_CONNECTIONS = 40;
const WIDE_SEARCHES = 20;
const TERMS = 9998;
/** So many values make a modify long. */
const MANY_VALUES = 600;
const WIDE_MS = 20_000;
/** V8's limit for the heap of each thread, in MiB, with which the wide searches run a second time. */
const SMALL_HEAP = 400;
const REST_MS = 5000;

const everything = searchRequest(PEOPLE, { scope: 'one' });

/**
 * 200 connections request everything a thousand times and do not read the answers; then other connections do the same.
 */
async function unread(arena) {
  for (let flood = 0; flood < FLOODS; flood++) {
    for (const client of await arena.users(200)) {
      client.socket.pause();
      client.sendTogether(Array(1000).fill(everything));
    }
    await sleep(2000);
    arena.release();
  }
}

/** Refused adds of 6.5 MiB by clients that have not bound. */
async function refused(arena) {
  const attributes = personAttributes('large', { description: 'x'.repeat(6.5 * MIB) });
  const request = { op: 'add', dn: `uid=large,${PEOPLE}`, attributes };
  const bytes = encodeRequest({ id: 7, request, controls: [] });
  const clients = await Promise.all(Array.from({ length: FLOOD }, () => arena.open()));
  for (const client of clients) client.write(bytes);
  for (const client of clients) await client.answer(7);
  // The rest of the request is skipped, and the connection stays usable.
  for (const client of clients) await client.search('');
}

/** Writes the wide searches of one user as fast as the server reads them. Their connections end after `WIDE_MS`. */
async function wide(arena) {
  const filters = Array.from({ length: TERMS }, (_, n) => ({
    type: 'equal',
    attribute: n % 2 === 0 ? 'sn' : 'cn',
    value: Buffer.from(`${n}`),
  }));
  const search = searchRequest(PEOPLE, { scope: 'sub', filter: { type: 'or', filters } });
  const clients = await Promise.all(Array.from({ length: WIDE_CONNECTIONS }, () => arena.user(0)));
  for (const client of clients) for (let n = 0; n < WIDE_SEARCHES; n++) client.send(search);
  await sleep(WIDE_MS);
  for (const client of clients) client.close();
}

/** Wide searches beside an administrator who replaces many values again and again, also in the thread for long work. */
async function wideBesideWrites(arena) {
  const admin = await arena.admin();
  const codes = new Map();
  let isOver = false;
  const modify = async () => {
    for (let n = 0; !isOver; n++) {
      const values = Array.from({ length: MANY_VALUES }, (_, v) => Buffer.from(`value ${v} of change ${n}`));
      const attribute = { type: 'description', values };
      const changes = [{ operation: 'replace', attribute }];
      const { code } = await admin.request({ op: 'modify', dn: userDn(1), changes });
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
  };
  const modifying = modify();
  await wide(arena);
  await sleep(REST_MS);
  isOver = true;
  await modifying;
  const counts = [...codes].map(([code, count]) => `${count} with ${code}`);
  process.stderr.write(`modifies of the administrator: ${counts.join(', ')}\n`);
}

const loads = {
  'nothing, for as long as a flood': () => sleep(2000),
  [`200 connections that do not read, ${FLOODS} times`]: unread,
  [`${FLOOD} adds of 6.5 MiB that are refused`]: refused,
  [`${WIDE_CONNECTIONS} times ${WIDE_SEARCHES} ORs of ${TERMS} terms`]: wide,
  [`the same beside writes, with a heap of ${SMALL_HEAP} MiB`]: wideBesideWrites,
};
const nodeOptions = new Map([[wideBesideWrites, `--max-old-space-size=${SMALL_HEAP}`]]);

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: { help: { type: 'boolean', default: false }, only: { type: 'string' } },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const lines = [];
  for (const [name, load] of Object.entries(loads)) {
    if (values.only !== undefined && !name.includes(values.only)) continue;
    lines.push(await lineOf(name, load));
    process.stderr.write(`${lines.at(-1).join('  ')}\n`);
  }
  process.stdout.write(`\n${formatRows([['MiB beside', 'before', 'at most', 'at rest'], ...lines])}\n`);
  if (values.only !== undefined) return;
  const rows = await largeValueRows(root, { say: (text) => process.stderr.write(`${text}\n`) });
  const large = rows.map(({ title, peak, idle }) => [title, ...[idle, peak].map((mib) => Math.round(mib).toString())]);
  process.stdout.write(`\n${formatRows([['MiB, a value of 100 MiB', 'idle', 'at most'], ...large])}\n`);
}

/** Measures on a server of its own, since the garbage collector keeps memory. */
async function lineOf(name, load) {
  const arena = new Arena();
  try {
    await arena.make();
    await arena.start(nodeOptions.has(load) ? { NODE_OPTIONS: nodeOptions.get(load) } : {});
    const memory = () => privateMemory(arena.server.process.pid);
    // Answers to clients that read come first: their memory is no part of the measured growth.
    for (const client of await arena.users(5)) await client.request(everything);
    arena.release();
    const before = memory();
    let most = before;
    const sampler = setInterval(() => {
      most = Math.max(most, memory());
    }, 5);
    try {
      await load(arena);
      arena.release();
      // The sampler goes on: a server may do in vain what clients have asked that have gone.
      const rest = await rested(arena, memory);
      return [name, ...[before, most, rest].map((bytes) => Math.round(bytes / MIB).toString())];
    } finally {
      clearInterval(sampler);
    }
  } finally {
    await arena.remove();
  }
}

/** An idle server collects little garbage, so the server gets a request now and then. */
async function rested(arena, memory) {
  const client = await arena.admin();
  const until = performance.now() + REST_MS;
  while (performance.now() < until) {
    await client.search(PEOPLE, { scope: 'one', sizeLimit: 100 });
    await sleep(50);
  }
  return memory();
}
