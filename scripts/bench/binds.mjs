/** npm run bench -- binds: the duration of failing binds, by the reason of the failure. */
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Attribute, Change, Client, InvalidCredentialsError } from 'ldapts';
import { formatRows, median } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan } from './servers.mjs';

const PASSWORD = 'password';
/** The same password as SHA-1. */
const BROUGHT = `{SHA}${createHash('sha1').update(PASSWORD).digest('base64')}`;
const POLICY = `cn=policy,${BASE}`;
/** A policy that locks an account after one failure, and after a second without a bind. */
const STRICT = `cn=strict,${BASE}`;
const NAMES = ['sound', 'brought', 'locked', 'expired', 'guessed', 'idle', 'coded'];
const USAGE = `npm run bench -- binds [options]
  --binds N   of each kind, taking turns (2000)
`;

const person = (name) => `uid=${name},ou=people,${BASE}`;

const kinds = [
  { title: 'nobody has the name', dn: person('nobody'), password: PASSWORD },
  { title: 'the password is wrong', dn: person('sound'), password: 'wrong' },
  { title: 'it is, of a hash from elsewhere', dn: person('brought'), password: 'wrong' },
  { title: 'locked, with the right password', dn: person('locked'), password: PASSWORD },
  { title: 'locked, with a wrong password', dn: person('locked'), password: 'wrong' },
  { title: 'locked by failures, with the right password', dn: person('guessed'), password: PASSWORD },
  { title: 'idle, with the right password', dn: person('idle'), password: PASSWORD },
  { title: 'a wrong code, with the right password', dn: person('coded'), password: `${PASSWORD}000000` },
  { title: 'a wrong code, with a wrong password', dn: person('coded'), password: 'wrong000000' },
  { title: 'expired, with the right password', dn: person('expired'), password: PASSWORD },
  { title: 'expired, with a wrong password', dn: person('expired'), password: 'wrong' },
];

/** The policy counts failures, but allows so many that no account is locked. */
const LDIF = `dn: ${BASE}
objectClass: dcObject
objectClass: organization
dc: ${/^dc=([^,]*)/.exec(BASE)[1]}
o: bench

dn: ou=people,${BASE}
objectClass: organizationalUnit
ou: people

dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 1000000
pwdFailureCountInterval: 1
pwdMaxAge: 100000000
pwdGraceAuthNLimit: 0

dn: ${STRICT}
objectClass: device
objectClass: pwdPolicy
cn: strict
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 1
pwdMaxIdle: 1
${NAMES.map(
  (name) => `
dn: ${person(name)}
objectClass: inetOrgPerson
uid: ${name}
cn: ${name}
sn: ${name}
userPassword: ${BROUGHT}
${['guessed', 'idle'].includes(name) ? `pwdPolicySubentry: ${STRICT}\n` : ''}`,
).join('')}`;

export async function main(root, args) {
  const { values } = parseArgs({
    args,
    options: { binds: { type: 'string', default: '2000' }, help: { type: 'boolean', default: false } },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'rowan-binds-'));
  const server = new Rowan(join(folder, 'rowan'), root);
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'people.ldif');
  writeFileSync(file, LDIF);
  server.load(file);
  const key = join(folder, 'totp.key');
  writeFileSync(key, randomBytes(32));
  server.flags = ['--passwords-policy', POLICY, '--passwords-totp-key', key];
  const account = (words, flags = ['--passwords-policy', POLICY]) =>
    server.run('account', ...words, ...flags, '--data', server.data);
  await server.start();
  await setPasswords(
    server,
    NAMES.filter((name) => name !== 'brought'),
  );
  account(['lock', person('locked')]);
  account(['expire', person('expired')]);
  account(['totp', 'enroll', person('coded')], server.flags);
  await lockOut(server);
  const taken = await binds(server.port, Number(values.binds));
  await server.stop();
  const [first] = taken.map(({ half }) => half);
  const lines = taken.map(({ title, half, most }) => [
    title,
    half.toFixed(2),
    `${(half / first).toFixed(3)}`,
    most.toFixed(2),
  ]);
  process.stdout.write(`\n${formatRows([['why the bind fails', 'median ms', 'of the first', 'p95 ms'], ...lines])}\n`);
}

/** Sets passwords through the server, so that they are hashed as the server hashes. */
async function setPasswords({ port, password }, names) {
  const client = new Client({ url: `ldap://127.0.0.1:${port}` });
  await client.bind(ADMIN, password);
  const modification = new Attribute({ type: 'userPassword', values: [PASSWORD] });
  for (const name of names) await client.modify(person(name), new Change({ operation: 'replace', modification }));
  await client.unbind();
}

/** Locks accounts: by one failure, and by a second without a bind. */
async function lockOut({ port }) {
  const client = new Client({ url: `ldap://127.0.0.1:${port}` });
  await refused(client, person('guessed'), 'wrong');
  await sleep(1000);
  await client.unbind();
}

function refused(client, dn, password) {
  return client.bind(dn, password).then(
    () => {
      throw new Error(`${dn} was let in`);
    },
    (error) => {
      if (!(error instanceof InvalidCredentialsError)) throw error;
    },
  );
}

async function binds(port, count) {
  const client = new Client({ url: `ldap://127.0.0.1:${port}` });
  const times = kinds.map(() => []);
  for (let n = 0; n < count; n++)
    for (const [kind, { dn, password }] of kinds.entries()) {
      const from = performance.now();
      await refused(client, dn, password);
      times[kind].push(performance.now() - from);
    }
  await client.unbind();
  return kinds.map(({ title }, kind) => {
    const sorted = times[kind].sort((a, b) => a - b);
    return { title, half: median(sorted), most: sorted[Math.floor(sorted.length * 0.95)] };
  });
}
