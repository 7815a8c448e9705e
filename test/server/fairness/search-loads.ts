import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Filter } from '../../../src/ldap/ldap-types.js';
import { decodePagedResults, encodePagedResults } from '../../../src/protocol/controls/paged-results.js';
import type { Control, SearchRequest } from '../../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../../src/protocol/oids.js';
import { PEOPLE, SUFFIX } from '../../cli/rowan.js';
import { type RawClient, searchRequest } from '../raw-client.js';
import { ALIASED, ALIASES, type Arena, type Load } from './arena.js';

/** As many as `limits.filterNodes` allows beside the OR or AND itself. */
const TERMS = 9_999;
/** The same of terms that count as two: substrings and negations. */
const DOUBLE_TERMS = 4_999;
/** `limits.filterDepth`, less the term at the bottom. */
const DEPTH = 98;

type Parts = Partial<SearchRequest>;

const equal = (attribute: string, value: string): Filter => ({ type: 'equal', attribute, value: Buffer.from(value) });
const holding = (attribute: string, text: string): Filter => {
  const any = [Buffer.from(text)];
  return { type: 'substring', attribute, initial: undefined, any, final: undefined };
};
const or = (filters: Filter[]): Filter => ({ type: 'or', filters });
const and = (filters: Filter[]): Filter => ({ type: 'and', filters });
const not = (filter: Filter): Filter => ({ type: 'not', filter });
const terms = (count: number, term: (n: number) => Filter): Filter[] =>
  Array.from({ length: count }, (_, n) => term(n));

const sub = (filter: Filter, parts: Parts = {}): Parts => ({ scope: 'sub', filter, attributes: ['uid'], ...parts });

/** Users each send the search again and again; each time it ends with one of `codes`. */
function searching(
  connections: number,
  parts: Parts,
  codes: readonly number[] = [0],
  controls: readonly Control[] = [],
): Load {
  return async (arena, goes) => {
    const clients = await arena.users(connections);
    await Promise.all(
      clients.map(async (client) => {
        do expect((await client.search(SUFFIX, parts, controls)).code).to.be.oneOf(codes);
        while (goes());
      }),
    );
  };
}

/** Of searches that take long: those that are sent behind them are answered first. They are abandoned in the end. */
function long(connections: number, parts: Parts): Load {
  return async (arena, goes) => {
    const clients = await arena.users(connections);
    await Promise.all(
      clients.map(async (client) => {
        const target = await client.overtaken(searchRequest(SUFFIX, parts));
        while (goes()) await sleep(20);
        client.send({ op: 'abandon', target });
        expect((await client.search(SUFFIX)).code).to.equal(0);
      }),
    );
  };
}

async function nextPage(client: RawClient, parts: Parts, cookie: Buffer): Promise<Buffer> {
  const value = encodePagedResults({ size: 100, cookie });
  const { code, controls } = await client.search(SUFFIX, parts, [
    { oid: ControlOid.pagedResults, critical: true, value },
  ]);
  expect(code).to.equal(0);
  return decodePagedResults(controls[0]!.value).cookie;
}

function paging(parts: readonly Parts[]): Load {
  return async (arena, goes) => {
    const clients = await arena.users(parts.length * 4);
    await Promise.all(
      clients.map(async (client, n) => {
        let cookie: Buffer = Buffer.alloc(0);
        do cookie = await nextPage(client, parts[n % parts.length]!, cookie);
        while (goes());
      }),
    );
  };
}

async function aliased(arena: Arena, goes: () => boolean): Promise<void> {
  const clients = await arena.users(3);
  const parts = { scope: 'sub', deref: 'always', attributes: ['uid'] } as const;
  await Promise.all(
    clients.map(async (client) => {
      do {
        const { code, entries } = await client.search(ALIASED, parts);
        expect([code, entries.length]).to.deep.equal([0, ALIASES + 1]);
      } while (goes());
    }),
  );
}

let nested: Filter = equal('sn', 'Sur1');
for (let depth = 0; depth < DEPTH; depth++)
  nested = depth % 2 === 0 ? not(nested) : and([nested, holding('cn', 'user')]);

/** Searches at their largest. */
export const searchLoads: Readonly<Record<string, Load>> = {
  'ORs of 9,999 equalities that an index serves': long(2, sub(or(terms(TERMS, (n) => equal('uid', `user.${n}`))))),
  'ORs of 9,999 equalities that a scan serves': long(
    2,
    sub(or(terms(TERMS, (n) => equal('description', `A description of user.${n}, as long as such texts are`)))),
  ),
  'ORs of 9,999 equalities on two attributes': long(
    2,
    sub(or(terms(TERMS, (n) => equal(n % 2 ? 'uid' : 'l', `user.${n}`)))),
  ),
  'ORs of 4,999 substrings': long(4, sub(or(terms(DOUBLE_TERMS, (n) => holding('cn', `nobody${n}`))))),
  'ORs of 4,999 prefixes and ranges that an index serves': long(
    4,
    sub(
      or(
        terms(DOUBLE_TERMS, (n) =>
          n % 2
            ? { type: 'greaterOrEqual', attribute: 'uid', value: Buffer.from(`user.${n}`) }
            : { type: 'substring', attribute: 'mail', initial: Buffer.from(`user.${n}`), any: [], final: undefined },
        ),
      ),
    ),
  ),
  'ANDs of 4,999 terms that all hold': long(4, sub(and(terms(DOUBLE_TERMS, (n) => not(equal('cn', `nobody${n}`)))))),
  'ANDs of ORs, all of them indexed': long(
    4,
    sub(and(terms(99, (n) => or(terms(99, (m) => equal('sn', `Sur${(n + m) % 500}`)))))),
  ),
  'filters nested as deep as they may be': searching(3, sub(nested), [4]),
  'scans of everything by fifty connections': long(50, sub(holding('description', 'nobody'))),
  'everything, sent to three connections': searching(3, { scope: 'sub' }, [4]),
  'effective rights on everything, asked for by ten connections': searching(
    10,
    { scope: 'sub', attributes: ['aclRights', '*'] },
    [4],
    [{ oid: ControlOid.effectiveRights, critical: true, value: undefined }],
  ),
  'results of an index by fifty connections': searching(50, sub(equal('givenName', 'Given1'))),
  'pages over ranges, ORs, prefixes and scans': paging([
    sub({ type: 'greaterOrEqual', attribute: 'uid', value: Buffer.from('user.1') }),
    sub(or([equal('givenName', 'Given1'), equal('sn', 'Sur7'), { type: 'present', attribute: 'mail' }])),
    sub({ type: 'substring', attribute: 'mail', initial: Buffer.from('user.1'), any: [], final: undefined }),
    sub(holding('description', '99')),
  ]),
  'searches through 800 aliases': aliased,
};

/** Answers that nobody reads; what they take is in unread.test.ts. */
export function unread(connections: number, searches: number): Load {
  return async (arena, goes) => {
    const clients = await arena.users(connections);
    const everything = searchRequest(PEOPLE, { scope: 'one' });
    for (const client of clients) {
      client.socket.pause();
      client.sendTogether(Array.from({ length: searches }, () => everything));
    }
    while (goes()) await sleep(20);
    expect(clients.filter(({ closed }) => closed)).to.have.length(0);
  };
}
