/**
 * npm run bench -- memory: what a server holds while clients ask for more than it may keep for them, and what each
 * operation on one large value takes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { encodeRequest } from '../../dist/src/protocol/encode-request.js';
import { PEOPLE } from '../../dist/test/cli/rowan.js';
import { personAttributes } from '../../dist/test/server/directory.js';
import { Arena } from '../../dist/test/server/fairness/arena.js';
import { searchRequest } from '../../dist/test/server/raw-client.js';
import { largeValueRows } from './large-values.mjs';
import { privateMemory } from './machine.mjs';
import { formatRows } from './report.mjs';

const USAGE = `npm run bench -- memory
`;
const MIB = 1024 * 1024;
const FLOODS = 3;
const FLOOD = 60;
const REST_MS = 5000;

const everything = searchRequest(PEOPLE, { scope: 'one' });

/** 200 connections ask for everything, a thousand times each, and do not read; then others do, and others again. */
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

/** Adds of 6.5 MiB that are refused, of clients that have not bound. */
async function refused(arena) {
  const attributes = personAttributes('large', { description: 'x'.repeat(6.5 * MIB) });
  const request = { op: 'add', dn: `uid=large,${PEOPLE}`, attributes };
  const bytes = encodeRequest({ id: 7, request, controls: [] });
  const clients = await Promise.all(Array.from({ length: FLOOD }, () => arena.open()));
  for (const client of clients) client.write(bytes);
  for (const client of clients) await client.answer(7);
  // The rest is passed over, and the connection is of use.
  for (const client of clients) await client.search('');
}

const loads = {
  'nothing, for as long as a flood': () => sleep(2000),
  [`200 connections that do not read, ${FLOODS} times`]: unread,
  [`${FLOOD} adds of 6.5 MiB that are refused`]: refused,
};

export async function main(root, args) {
  const { values } = parseArgs({ args, options: { help: { type: 'boolean', default: false } } });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const lines = [];
  for (const [name, load] of Object.entries(loads)) {
    lines.push(await lineOf(name, load));
    process.stderr.write(`${lines.at(-1).join('  ')}\n`);
  }
  process.stdout.write(`\n${formatRows([['MiB beside', 'before', 'at most', 'at rest'], ...lines])}\n`);
  const rows = await largeValueRows(root, { say: (text) => process.stderr.write(`${text}\n`) });
  const large = rows.map(({ title, peak, idle }) => [title, ...[idle, peak].map((mib) => Math.round(mib).toString())]);
  process.stdout.write(`\n${formatRows([['MiB, a value of 100 MiB', 'idle', 'at most'], ...large])}\n`);
}

/** Over a server of its own: the collector leaves what it wants to. */
async function lineOf(name, load) {
  const arena = new Arena();
  try {
    await arena.make();
    await arena.start();
    const memory = () => privateMemory(arena.server.process.pid);
    // What a server comes to have that has sent as much to one who reads is not looked for.
    for (const client of await arena.users(5)) await client.request(everything);
    arena.release();
    const before = memory();
    let most = before;
    const sampler = setInterval(() => {
      most = Math.max(most, memory());
    }, 5);
    try {
      await load(arena);
    } finally {
      clearInterval(sampler);
    }
    arena.release();
    return [name, ...[before, most, await rested(arena, memory)].map((bytes) => Math.round(bytes / MIB).toString())];
  } finally {
    await arena.remove();
  }
}

/** A server without work collects little, so it is asked now and then. */
async function rested(arena, memory) {
  const client = await arena.admin();
  const until = performance.now() + REST_MS;
  while (performance.now() < until) {
    await client.search(PEOPLE, { scope: 'one', sizeLimit: 100 });
    await sleep(50);
  }
  return memory();
}
