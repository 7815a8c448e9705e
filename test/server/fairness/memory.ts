import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { encodeRequest } from '../../../src/protocol/encode-request.js';
import { MIB, memoryOf, peak } from '../../cli/memory.js';
import { PEOPLE } from '../../cli/rowan.js';
import { personAttributes } from '../directory.js';
import { searchRequest } from '../raw-client.js';
import type { Arena } from './arena.js';

/**
 * How far the memory of a server may rise, MiB: `limits.allUnsentBytes` or what requests may have, and what the
 * collector leaves.
 */
const RISE = 64 + 64;
/** What may stay of it when all is over: the collector frees when it wants to. */
const REST = 48;
const FLOOD = 60;

/** Waits until the memory has gone back; a server without work collects little, so it is asked now and then. */
async function goneBack(arena: Arena, before: number): Promise<number> {
  const { pid } = arena.server.process;
  const client = await arena.admin();
  for (let left = 300; left > 0 && memoryOf(pid!) - before > REST; left--) {
    await client.search(PEOPLE, { scope: 'one', sizeLimit: 100 });
    await sleep(50);
  }
  return memoryOf(pid!) - before;
}

/** What `work` adds to the server's memory, at most and when it is over, MiB. */
async function added(arena: Arena, work: () => Promise<void>): Promise<{ most: number; rest: number }> {
  const pid = arena.server.process.pid!;
  const before = memoryOf(pid);
  const most = (await peak(pid, work)) - before;
  arena.release();
  return { most, rest: await goneBack(arena, before) };
}

/** A collector that has few turns leaves more; what three floods leave behind would be far beyond. */
const RISE_OF_FLOODS = 64 + 224;

/** 200 connections ask for everything, a thousand times each, and do not read; then others do, and others again. */
export async function unreadMemory(arena: Arena): Promise<void> {
  const everything = searchRequest(PEOPLE, { scope: 'one' });
  // What a server comes to have that has sent as much to one who reads is not looked for.
  for (const client of await arena.users(5)) expect((await client.request(everything)).code).to.equal(4);
  arena.release();
  const pid = arena.server.process.pid!;
  const before = memoryOf(pid);
  for (let flood = 1; flood <= 3; flood++) {
    const most = await peak(pid, async () => {
      for (const client of await arena.users(200)) {
        client.socket.pause();
        client.sendTogether(Array(1000).fill(everything));
      }
      for (let round = 0; round < 100; round++) await sleep(20);
    });
    arena.release();
    if (process.env.ROWAN_FAIRNESS) console.log({ flood, most: most - before });
    expect(most - before).to.be.below(RISE_OF_FLOODS);
  }
}

/** Adds of 6.5 MiB that are refused, of clients that have not bound. */
export async function refusedMemory(arena: Arena): Promise<void> {
  const dn = `uid=large,${PEOPLE}`;
  const attributes = personAttributes('large', { description: 'x'.repeat(6.5 * MIB) });
  const bytes = encodeRequest({ id: 7, request: { op: 'add', dn, attributes }, controls: [] });
  const { most, rest } = await added(arena, async () => {
    const clients = await Promise.all(Array.from({ length: FLOOD }, () => arena.open()));
    for (const client of clients) client.write(bytes);
    for (const client of clients) expect((await client.answer(7)).code).to.equal(50);
    // The rest is passed over, and the connection is of use.
    for (const client of clients) expect((await client.search('')).code).to.equal(0);
  });
  if (process.env.ROWAN_FAIRNESS) console.log({ most, rest });
  expect(most).to.be.below(RISE);
  expect(rest).to.be.below(REST);
}
