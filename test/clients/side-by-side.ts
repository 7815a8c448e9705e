import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { ADMIN, PASSWORD, PEOPLE, rowanDoes, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { type Answer, RawClient } from '../server/raw-client.js';
import { startSlapd } from './slapd.js';

export const HELPDESK = `uid=helpdesk,${SUFFIX}`;
const POLICIES = `ou=policies,${SUFFIX}`;
const POLICY_CONTROL = { oid: ControlOid.passwordPolicy, critical: false, value: undefined };

export const dnOf = (uid: string): string => `uid=${uid},${PEOPLE}`;
export const policyDn = (name: string): string => `cn=${name},${POLICIES}`;

type Values = Readonly<Record<string, string | readonly string[]>>;

/** Entries of both servers, by name: policies, and accounts with what their entries say besides. */
export interface Entries {
  readonly policies: Readonly<Record<string, Values>>;
  readonly accounts: Readonly<Record<string, Values>>;
}

/** Who sends a request: the administrator, the help desk, nobody, or a user with a password. */
export type Sender = 'admin' | 'helpdesk' | 'anonymous' | readonly [uid: string, password: string];

/** One of two servers with the same entries. */
export interface Side {
  readonly name: string;
  start(entries: Entries): Promise<void>;
  /** Returns the answer and what the account `uid` shows behind it, as one line. */
  ask(sender: Sender, request: Request, uid: string): Promise<string>;
  stop(): Promise<void>;
}

function ldifLines(values: Values): string {
  return Object.entries(values)
    .flatMap(([type, value]) => [value].flat().map((one) => `${type}:: ${Buffer.from(one).toString('base64')}\n`))
    .join('');
}

function ldif({ policies, accounts }: Entries, policyLines = ''): string {
  const unit = (dn: string) => `dn: ${dn}\nobjectClass: organizationalUnit\nou: ${/^ou=(\w+)/.exec(dn)![1]}\n\n`;
  const person = (dn: string, uid: string, values: Values) =>
    `dn: ${dn}\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: Anna Lindqvist\nsn: Lindqvist\n${ldifLines(values)}\n`;
  return [
    `dn: ${SUFFIX}\nobjectClass: organization\nobjectClass: dcObject\ndc: example\no: Example\n\n`,
    unit(PEOPLE),
    unit(POLICIES),
    ...Object.entries(policies).map(
      ([name, values]) =>
        `dn: ${policyDn(name)}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: ${name}\n` +
        `pwdAttribute: userPassword\n${ldifLines(values)}${policyLines}\n`,
    ),
    person(HELPDESK, 'helpdesk', { userPassword: PASSWORD }),
    ...Object.entries(accounts).map(([uid, values]) => person(dnOf(uid), uid, values)),
  ].join('');
}

const ERRORS = [
  ...['password expired', 'account locked', 'change after reset', 'password modification not allowed'],
  ...['must supply old password', 'insufficient quality', 'too short', 'too young', 'in history', 'too long'],
];
/** Seconds before an expiry are told in whole multiples, so that the moment of the request does not matter. */
const EXPIRY_UNIT = 10_000;

/** The value of the control of draft-behera-ldap-password-policy-10 §6, in words. */
function controlWords(value: Buffer | undefined): string {
  const words: string[] = [];
  const bytes = value?.subarray(2) ?? Buffer.alloc(0);
  for (let at = 0; at < bytes.length; at += 2 + bytes[at + 1]!) {
    const content = bytes.subarray(at + 2, at + 2 + bytes[at + 1]!);
    if (bytes[at] === 0x81) words.push(ERRORS[content[0]!]!);
    if (bytes[at] !== 0xa0) continue;
    const count = content.readIntBE(2, content[1]!);
    const isTime = content[0] === 0x80;
    words.push(isTime ? `expires in ${Math.ceil(count / EXPIRY_UNIT)}0000 s` : `${count} grace logins`);
  }
  return words.map((word) => `, ${word}`).join('');
}

function answerText({ code, controls, entries, final }: Answer, request: Request): string {
  const told = controlWords(controls.find(({ oid }) => oid === ControlOid.passwordPolicy)?.value);
  const found = request.op === 'search' ? `, finds ${entries.length}` : '';
  const made = final.op === 'extendedResponse' && final.value ? ', a value' : '';
  return `${code}${told}${found}${made}`;
}

const SHOWN = ['pwdFailureTime', 'pwdAccountLockedTime', 'pwdReset', 'pwdChangedTime', 'pwdGraceUseTime'];

/** What the operational attributes of an account show: counts of times, and what is there. */
function accountText({ entries: [entry] }: Answer): string {
  if (!entry) return 'no entry';
  const values = (name: string) => entry.attributes.get(name) ?? [];
  const parts = SHOWN.flatMap((name) => {
    const found = values(name);
    if (found.length === 0) return [];
    if (name === 'pwdReset') return [`${name} ${found[0]}`];
    return [name === 'pwdFailureTime' || name === 'pwdGraceUseTime' ? `${name} ${found.length}` : name];
  });
  return parts.join(', ');
}

abstract class AskedServer {
  #port = 0;
  #admin: RawClient | undefined;
  #helpdesk: RawClient | undefined;

  protected async connectTo(url: string): Promise<void> {
    this.#port = Number(new URL(url).port);
    this.#admin = await this.#boundAs(ADMIN, PASSWORD);
    this.#helpdesk = await this.#boundAs(HELPDESK, PASSWORD);
  }

  async ask(sender: Sender, request: Request, uid: string): Promise<string> {
    const answer = await this.#answer(sender, request);
    const shown = await this.#admin!.search(dnOf(uid), { attributes: SHOWN });
    return `${answer} [${accountText(shown)}]`;
  }

  async #answer(sender: Sender, request: Request): Promise<string> {
    const kept = sender === 'admin' ? this.#admin! : sender === 'helpdesk' ? this.#helpdesk! : undefined;
    if (kept) return answerText(await kept.request(request, [POLICY_CONTROL]), request);
    const client = await RawClient.open(this.#port);
    try {
      const code = typeof sender === 'string' ? 0 : await client.bind(dnOf(sender[0]), sender[1]);
      if (code !== 0) return `bind ${code}`;
      return answerText(await client.request(request, [POLICY_CONTROL]), request);
    } catch (error) {
      if (!client.closed) throw error;
      return 'the connection ends';
    } finally {
      client.close();
    }
  }

  async #boundAs(dn: string, password: string): Promise<RawClient> {
    const client = await RawClient.open(this.#port);
    expect(await client.bind(dn, password), `bind as ${dn}`).to.equal(0);
    return client;
  }

  async stop(): Promise<void> {
    this.#admin?.close();
    this.#helpdesk?.close();
  }
}

const RULES = `rules:
- { name: users read, who: { users: true }, allow: [view] }
- { name: own password, who: { self: true }, to: { attributes: [userPassword] }, allow: [compare, write] }
- name: the help desk writes
  who: { dn: "${HELPDESK}" }
  to: { attributes: [entry, children, "*", "+", userPassword] }
  allow: [view, write, create, remove]
`;

export class RowanSide extends AskedServer implements Side {
  readonly name = 'Rowan';
  readonly #sandbox = new Sandbox();

  async start(entries: Entries): Promise<void> {
    await this.#sandbox.init();
    const [input, rules] = [this.#sandbox.path('entries.ldif'), this.#sandbox.path('access.yaml')];
    writeFileSync(input, ldif(entries, 'objectClass: rowanPwdPolicy\nrowanPwdTellLockout: TRUE\n'));
    writeFileSync(rules, RULES);
    await rowanDoes(['import', '--data', this.#sandbox.data, input]);
    await rowanDoes(['access', 'apply', rules, '--data', this.#sandbox.data]);
    const cheap = ['--passwords-argon2-memory-kib', '64', '--passwords-argon2-time-cost', '1'];
    await this.connectTo((await this.#sandbox.serve(cheap)).url);
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.#sandbox.remove();
  }
}

/** Debian's slapd with the overlay ppolicy, which upgrades no hashes and, as Rowan here, tells of locks. */
export class SlapdSide extends AskedServer implements Side {
  readonly name = 'slapd';
  readonly #folder = mkdtempSync(join(tmpdir(), 'rowan-slapd-'));
  #stop: (() => Promise<unknown>) | undefined;

  async start(entries: Entries): Promise<void> {
    const conf = join(this.#folder, 'slapd.conf');
    const input = join(this.#folder, 'entries.ldif');
    mkdirSync(join(this.#folder, 'db'));
    writeFileSync(conf, slapdConf(this.#folder));
    writeFileSync(input, ldif(entries));
    const added = await run('slapadd', ['-q', '-f', conf, '-l', input]);
    expect(added.code, added.stderr).to.equal(0);
    const slapd = await startSlapd(conf);
    this.#stop = slapd.stop;
    await this.connectTo(slapd.url);
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.#stop?.();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Whether slapd's module for {ARGON2} is there, which Debian has in slapd-contrib. */
export const HAS_ARGON2 = existsSync('/usr/lib/ldap/argon2.so');

function slapdConf(folder: string): string {
  return `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
pidfile ${folder}/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload ppolicy
${HAS_ARGON2 ? 'moduleload argon2\n' : ''}database mdb
maxsize 16777216
dbnosync
suffix "${SUFFIX}"
rootdn "${ADMIN}"
rootpw "${PASSWORD}"
directory ${folder}/db
lastbind on
access to attrs=userPassword by dn.exact="${HELPDESK}" write by self write by anonymous auth
access to * by dn.exact="${HELPDESK}" write by users read by anonymous auth
overlay ppolicy
ppolicy_use_lockout
ppolicy_hash_cleartext
`;
}
