import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { expect } from 'chai';
import { encodeRequest } from '../../../src/protocol/encode.js';
import type { Request } from '../../../src/protocol/ldap-messages.js';
import { ExtendedOid } from '../../../src/protocol/oids.js';
import { PEOPLE, SUFFIX } from '../../cli/rowan.js';
import { encodeApplicationPasswords } from '../../protocol/client-values.js';
import { attributes } from '../directory.js';
import { type RawClient, searchRequest } from '../raw-client.js';
import { type Arena, type Load, userDn } from './arena.js';

const MIB = 1024 * 1024;
const START_TLS = { op: 'extended', oid: ExtendedOid.startTls, value: undefined } as const;

/** Requests of which a byte comes at a time; `how` opens a connection that may send them. */
function slowly(connections: number, how: (arena: Arena) => Promise<RawClient>, request: Request): Load {
  const bytes = encodeRequest({ id: 99, request, controls: [] });
  return async (arena, goes) => {
    const clients = await Promise.all(Array.from({ length: connections }, () => how(arena)));
    for (let at = 0; goes(); at++) {
      for (const client of clients) client.write(bytes.subarray(at, at + 1));
      await sleep(5);
    }
    for (const client of clients) client.close();
  };
}

/** Connects, binds, searches and closes, again and again. */
async function sessions(arena: Arena, goes: () => boolean): Promise<void> {
  await together(50, goes, async (n) => {
    const client = await arena.user(n);
    expect((await client.search(userDn(n))).entries).to.have.length(1);
    client.send({ op: 'unbind' });
    await client.ended();
  });
}

/** Connects and goes away without a word. */
async function connects(arena: Arena, goes: () => boolean): Promise<void> {
  await together(100, goes, async () => {
    const socket = connect(arena.server.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.resetAndDestroy();
  });
}

async function tlsSessions(arena: Arena, goes: () => boolean): Promise<void> {
  await together(20, goes, async () => {
    const client = await arena.open();
    expect((await client.request(START_TLS)).code).to.equal(0);
    const plain = client.socket;
    plain.removeAllListeners();
    const socket = connectTls({ socket: plain, ca: arena.ca!, servername: 'localhost' });
    await once(socket, 'secureConnect');
    socket.destroy();
  });
}

/** Searches that are abandoned as soon as they are sent, and abandons of what never was. */
function abandons(open: (arena: Arena) => Promise<RawClient[]>): Load {
  const any = [Buffer.from('nobody')];
  const filter = { type: 'substring', attribute: 'description', initial: undefined, any, final: undefined } as const;
  return async (arena, goes) => {
    const clients = await open(arena);
    await Promise.all(
      clients.map(async (client) => {
        do {
          const first = client.nextId();
          const requests = Array.from({ length: 200 }, (_, n): Request[] => [
            searchRequest(SUFFIX, { scope: 'sub', filter }),
            { op: 'abandon', target: first + 1 + 2 * n },
          ]);
          client.sendTogether(requests.flat());
          expect((await client.search(SUFFIX)).code).to.equal(0);
        } while (goes());
      }),
    );
  };
}

/** Requests of one kind by twenty connections of one user, 200 in a write. */
function flood(request: Request): Load {
  return async (arena, goes) => {
    const clients = await sameUser(arena);
    await Promise.all(
      clients.map(async (client) => {
        do {
          const ids = client.sendTogether(Array.from({ length: 200 }, () => request));
          for (const id of ids) expect((await client.answer(id)).code).to.equal(0);
        } while (goes());
      }),
    );
  };
}

function sameUser(arena: Arena): Promise<RawClient[]> {
  return Promise.all(Array.from({ length: 20 }, () => arena.user(0)));
}

const listApplicationPasswords: Request = {
  op: 'extended',
  oid: ExtendedOid.applicationPasswords,
  value: encodeApplicationPasswords({ action: 'list' }),
};

/** As many small requests in one write as may be at work. */
async function pipelines(arena: Arena, goes: () => boolean): Promise<void> {
  const clients = await arena.users(10);
  await Promise.all(
    clients.map(async (client) => {
      do {
        const ids = client.sendTogether(Array.from({ length: 1000 }, (_, n) => searchRequest(userDn(n))));
        for (const id of ids) await client.answer(id);
      } while (goes());
    }),
  );
}

async function together(count: number, goes: () => boolean, work: (n: number) => Promise<void>): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      do await work(n);
      while (goes());
    }),
  );
}

const description = 'x'.repeat(15 * MIB);
const largeAdd: Request = {
  op: 'add',
  dn: `uid=slow,${PEOPLE}`,
  attributes: attributes({ objectClass: 'inetOrgPerson', uid: 'slow', cn: 'slow', sn: 'slow', description }),
};

/** What connections do by themselves. */
export const connectionLoads: Readonly<Record<string, Load>> = {
  'large requests of fifty connections, a byte at a time': slowly(50, (arena) => arena.admin(), largeAdd),
  'requests of 200 unbound connections, a byte at a time': slowly(
    200,
    (arena) => arena.open(),
    searchRequest('', { attributes: Array.from({ length: 4000 }, (_, n) => `attribute${n}`) }),
  ),
  'storms of sessions': sessions,
  'storms of connects': connects,
  'storms of abandons': abandons((arena) => arena.users(20)),
  'thousands of requests at once': pipelines,
  'application-password requests by twenty connections of one user': flood(listApplicationPasswords),
  'searches and abandons by twenty connections of one user': abandons(sameUser),
  'storms of StartTLS': tlsSessions,
};
