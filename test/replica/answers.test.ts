import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import type { Filter, Scope } from '../../src/ldap/ldap-types.js';
import { hotpCode, stepAt } from '../../src/password/totp.js';
import type { Control, Request } from '../../src/protocol/ldap-messages.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { ADA, ADMIN, PASSWORD, PEOPLE, rowanDoes, Sandbox, SUFFIX } from '../cli/rowan.js';
import { personDn } from '../cli/workers.js';
import { rounds } from '../rounds.js';
import { Random } from '../schema/random.js';
import { type Answer, RawClient, searchRequest, simpleBind } from '../server/raw-client.js';
import { Machine } from './servers.js';

const STRICT = `cn=strict,${SUFFIX}`;
const LAX = `cn=lax,${SUFFIX}`;
const HELPDESK = personDn('helpdesk');
const DEVICE = personDn('device');
const TEAM = `cn=team,ou=groups,${SUFFIX}`;

const person = (uid: string, password: string, more = ''): string =>
  `dn: ${personDn(uid)}\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\nuserPassword: ${password}\n${more}\n`;
const policy = (dn: string, name: string, lines: string): string =>
  `dn: ${dn}\nobjectClass: device\nobjectClass: pwdPolicy\nobjectClass: rowanPwdPolicy\ncn: ${name}\npwdAttribute: userPassword\n${lines}\n`;

const ENTRIES = [
  policy(LAX, 'lax', 'pwdMinLength: 4\npwdExpireWarning: 864000\npwdMaxAge: 8640000\n'),
  policy(STRICT, 'strict', 'pwdLockout: TRUE\npwdMaxFailure: 3\npwdInHistory: 3\nrowanPwdTellLockout: TRUE\n'),
  person('helpdesk', 'help words'),
  ...[0, 1].map((at) => person(`lock${at}`, 'lock words', `pwdPolicySubentry: ${STRICT}\n`)),
  ...[0, 1].map((at) => person(`code${at}`, 'code words', `pwdPolicySubentry: ${STRICT}\n`)),
  person('plain', 'plain words'),
  person('device', 'device words', `pwdPolicySubentry: ${LAX}\ndescription: has a second factor\n`),
  person('reset', 'reset words', `pwdPolicySubentry: ${STRICT}\npwdReset: TRUE\n`),
  `dn: ${TEAM}\nobjectClass: groupOfNames\ncn: team\nmember: ${HELPDESK}\nmember: ${DEVICE}\nmember: ${ADA}\n\n`,
  `dn: cn=all,ou=groups,${SUFFIX}\nobjectClass: groupOfURLs\ncn: all\nmemberURL: ldap:///${PEOPLE}??one?(description=*)\n\n`,
].join('');

const RULES = `rules:
- { name: users read, who: { users: true }, allow: [view] }
- { name: anybody sees names, who: { anonymous: true }, to: { attributes: [entry, objectClass, cn, uid] }, allow: [view] }
- { name: no phone numbers, who: { not: { self: true } }, to: { attributes: [telephoneNumber] }, deny: [view] }
- { name: own password, who: { self: true }, to: { attributes: [userPassword, description] }, allow: [compare, write] }
- { name: the team writes titles, who: { group: "${TEAM}" }, to: { attributes: [title] }, allow: [view, write] }
`;

/** An answer as text: entries in any order, values in order. */
function textOf({ final, controls, entries, references }: Answer): string {
  const shownControls = (list: readonly Control[]) => list.map(({ oid, value }) => `${oid}=${value?.toString('hex')}`);
  const shown = entries.map(({ dn, attributes, controls: own }) => {
    const lines = [...attributes].map(
      ([type, values]) => `${type}: ${values.map((v) => v.toString('latin1')).join('|')}`,
    );
    return [dn, ...lines, ...shownControls(own)].join('\n  ');
  });
  return [JSON.stringify(final), ...shownControls(controls), ...shown.sort(), ...references.flat().sort()].join('\n');
}

const ATTRIBUTES = [
  'cn',
  'uid',
  'objectClass',
  'member',
  'memberOf',
  'title',
  'telephoneNumber',
  'description',
  'mail',
];
const OTHER_ATTRIBUTES = ['pwdPolicySubentry', 'pwdReset', 'userPassword', 'entryUUID', 'nosuch', 'modifyTimestamp'];
const VALUES = ['ada', 'ADA', 'example', 'team', HELPDESK, ADA, 'person', 'inetOrgPerson', TEAM, '', 'TRUE', 'x y'];
const DNS = [SUFFIX, PEOPLE, ADA, HELPDESK, TEAM, STRICT, `ou=groups,${SUFFIX}`, `uid=none,${PEOPLE}`, 'dc=no', 'x'];
const PARTS = [
  [],
  ['*'],
  ['+'],
  ['*', '+'],
  ['1.1'],
  ['cn', 'memberOf'],
  ['@person', 'hasSubordinates'],
  ['mail', 'nosuch'],
];
const CONTROLS: readonly Control[] = [
  { oid: ControlOid.manageDsaIT, critical: true, value: undefined },
  { oid: ControlOid.passwordPolicy, critical: false, value: undefined },
  { oid: ControlOid.accountUsability, critical: false, value: undefined },
  { oid: '1.2.3.4', critical: true, value: undefined },
];

/** Makes random requests, none of which changes an entry. */
class Requests {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  #bytes(): Buffer {
    return Buffer.from(this.#random.pick(VALUES));
  }

  #attribute(): string {
    return this.#random.pick([...ATTRIBUTES, ...ATTRIBUTES, ...OTHER_ATTRIBUTES]);
  }

  #filter(depth = 0): Filter {
    const attribute = this.#attribute();
    const kind = this.#random.below(depth < 2 ? 7 : 4);
    if (kind === 0) return { type: 'present', attribute };
    if (kind === 1) return { type: 'substring', attribute, initial: undefined, any: [this.#bytes()], final: undefined };
    if (kind === 2) return { type: 'greaterOrEqual', attribute, value: this.#bytes() };
    if (kind === 3) return { type: 'equal', attribute, value: this.#bytes() };
    if (kind === 4) return { type: 'not', filter: this.#filter(depth + 1) };
    return { type: kind === 5 ? 'and' : 'or', filters: [this.#filter(depth + 1), this.#filter(depth + 1)] };
  }

  controls(): Control[] {
    return this.#random.below(3) === 0 ? [this.#random.pick(CONTROLS)] : [];
  }

  read(): Request {
    const dn = this.#random.pick(DNS);
    const kind = this.#random.below(8);
    if (kind === 0) return { op: 'extended', oid: ExtendedOid.whoAmI, value: undefined };
    if (kind < 3) return { op: 'compare', dn, attribute: this.#attribute(), value: this.#bytes() };
    return searchRequest(dn, {
      scope: this.#random.pick<Scope>(['base', 'one', 'sub']),
      filter: this.#filter(),
      attributes: this.#random.pick(PARTS),
      typesOnly: this.#random.below(6) === 0,
    });
  }

  /** A write that is refused to everybody. */
  write(): Request {
    const change = (type: string, value: string): Request => {
      const attribute = { type, values: [Buffer.from(value)] };
      return { op: 'modify', dn: this.#random.pick(DNS), changes: [{ operation: 'add', attribute }] };
    };
    return this.#random.pick<() => Request>([
      () => change('nosuch', 'x'),
      () => change('entryUUID', 'x'),
      () => change('uidNumber', 'x'),
      () => change('dc', 'x'),
      () => ({ op: 'delete', dn: this.#random.pick([SUFFIX, PEOPLE, 'dc=no', `uid=none,${PEOPLE}`]) }),
      () => ({ op: 'add', dn: this.#random.pick(DNS), attributes: [] }),
      () => ({ op: 'add', dn: ADA, attributes: [{ type: 'objectClass', values: [Buffer.from('account')] }] }),
      () => ({ op: 'modifyDN', dn: ADA, newRdn: 'uid=helpdesk', deleteOldRdn: true, newSuperior: undefined }),
    ])();
  }
}

/** RFC 4648 §6. */
function fromBase32(text: string): Buffer {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...text].map((letter) => letters.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from(bits.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2)));
}

describe('replica: answers are those of the primary', () => {
  const sandbox = new Sandbox();
  const first = new Machine(sandbox, 'data');
  const second = new Machine(sandbox, 'second');
  const random = new Random();
  const secrets = new Map<string, Buffer>();
  let application = '';
  let admin: RawClient;
  /** The same session at both servers, by identity. */
  const sessions: [name: string, clients: readonly [RawClient, RawClient]][] = [];
  const codeAt = (dn: string, drift = 0): string => hotpCode(secrets.get(dn)!, stepAt(Date.now()) + drift);

  before(async () => {
    await sandbox.initSample();
    const [key, rules] = [sandbox.path('key'), sandbox.path('rules.yaml')];
    writeFileSync(key, randomBytes(32));
    writeFileSync(rules, RULES);
    await rowanDoes(['import', '--data', first.data, '-'], { input: ENTRIES });
    await rowanDoes(['access', 'apply', rules, '--data', first.data]);
    for (const dn of [DEVICE, personDn('code0'), personDn('code1')]) {
      const said = await rowanDoes([
        'account',
        'totp',
        'enroll',
        dn,
        '--passwords-totp-key',
        key,
        '--data',
        first.data,
      ]);
      secrets.set(dn, fromBase32(/[?&]secret=([A-Z2-7]+)/.exec(said)![1]!));
    }
    const said = await rowanDoes(['account', 'password', 'add', HELPDESK, '--name', 'mail', '--data', first.data]);
    application = /: ([a-z2-9-]{27}) /.exec(said)![1]!;
    const settings = ['--passwords-totp-key', key, '--passwords-policy', LAX];
    await first.start(...settings);
    await second.follow(first);
    await second.start(...settings);
    admin = await second.client();
    await second.says('0 changes behind');
    const open = async (name: string, dn: string, passwordAt: (at: number) => string): Promise<void> => {
      const clients = [first, second].map(({ server }) => RawClient.open(server.port));
      const [a, b] = await Promise.all(clients);
      if (dn !== '')
        for (const [at, client] of [a!, b!].entries()) expect(await client.bind(dn, passwordAt(at)), name).to.equal(0);
      sessions.push([name, [a!, b!]]);
    };
    await open('nobody', '', () => '');
    await open('administrator', ADMIN, () => PASSWORD);
    await open('user', personDn('plain'), () => 'plain words');
    await open('member', HELPDESK, () => 'help words');
    await open('application password', HELPDESK, () => application);
    // Each code is good for one bind.
    await open('second factor', DEVICE, (at) => `device words${codeAt(DEVICE, at)}`);
  });
  after(() => sandbox.remove());

  const ask = async (
    name: string,
    clients: readonly RawClient[],
    request: Request | readonly Request[],
    controls: Control[],
  ) => {
    const requests = [request].flat() as Request[];
    const answerOf = async (client: RawClient, sent: Request): Promise<string> => {
      try {
        return textOf(await client.request(sent, controls));
      } catch (error) {
        return `${(error as Error).message}: ${JSON.stringify(await client.notice())}`;
      }
    };
    const texts = clients.map((client, at) => answerOf(client, requests[at] ?? requests[0]!));
    const [expected, actual] = await Promise.all(texts);
    const asked = JSON.stringify(requests[0], (_, value) =>
      value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value,
    );
    expect(actual, `${name}: ${asked}, ROWAN_SEED=${random.seed} repeats it`).to.equal(expected);
  };

  it('to reads, refused writes and binds of six identities', async () => {
    const requests = new Requests(random);
    const passwords = ['wrong', 'lock words', 'code words', '', 'code words000000'];
    for (let i = 0; i < rounds(150, 1000); i++) {
      const [name, clients] = random.pick(sessions);
      const kind = random.below(10);
      if (kind < 7) await ask(name, clients, requests.read(), requests.controls());
      else if (kind < 9) await ask(name, clients, requests.write(), requests.controls());
      else {
        // What one bind records decides the next, so each server gets an account of its own.
        const account = random.pick(['code', 'lock']);
        const isRight = account === 'code' && random.below(2) === 0;
        const password = random.pick(passwords);
        const binds = [0, 1].map((at) => {
          const dn = personDn(`${account}${at}`);
          return simpleBind(dn, isRight ? `code words${codeAt(dn)}` : password);
        });
        const pair = await Promise.all([first, second].map(({ server }) => RawClient.open(server.port)));
        await ask('a bind', pair, binds, [CONTROLS[1]!]);
        for (const client of pair) client.close();
      }
      if (kind < 7) continue;
      // The replica has all before it answers a change of its own.
      const attribute = { type: 'description', values: [Buffer.from(`round ${i}`)] };
      const change = { op: 'modify', dn: STRICT, changes: [{ operation: 'replace', attribute }] } as const;
      expect((await admin.request(change)).code).to.equal(0);
    }
  });
});
