import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { ADMIN, PASSWORD, rowanDoes, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';
import { startSlapd } from './slapd.js';

const POLICY = `cn=policy,${SUFFIX}`;
const DAY = 86_400_000;

function time(ms: number): string {
  return `${new Date(ms).toISOString().replace(/[-:T]|\..*/g, '')}Z`;
}

let number = 70_000;

function account(uid: string, changed: number, more = ''): string {
  return `
dn: uid=${uid},${SUFFIX}
objectClass: inetOrgPerson
objectClass: posixAccount
uidNumber: ${++number}
gidNumber: 70000
homeDirectory: /nonexistent
uid: ${uid}
cn: ${uid}
sn: ${uid}
userPassword: right
pwdChangedTime: ${time(changed)}
${more}`;
}

/**
 * A directory under a password policy: for each client one whose password expires in 4 days, one whose password has
 * expired, with one grace login, one whose password was reset, and one whom failures may lock. `policy`: more lines.
 */
function ldif(clients: readonly string[], policy = ''): string {
  const now = Date.now();
  const accounts = clients.flatMap((client) => [
    account(`expiring-${client}`, now - 6 * DAY),
    account(`expired-${client}`, now - 20 * DAY),
    account(`reset-${client}`, now, 'pwdReset: TRUE\n'),
    account(`locked-${client}`, now),
  ]);
  return `dn: ${SUFFIX}
objectClass: organization
objectClass: dcObject
dc: example
o: Example

dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 3
pwdMaxAge: 864000
pwdExpireWarning: 432000
pwdGraceAuthNLimit: 1
pwdMustChange: TRUE
${policy}${accounts.join('')}`;
}

/** A server that knows the accounts of these clients, and tells who is locked. */
export interface PolicyServer {
  readonly name: string;
  /** Leaves out the suite where it is not there. */
  needs(context: Mocha.Context): void;
  start(clients: readonly string[]): Promise<string>;
  remove(): Promise<void>;
}

export function rowanUnderPolicy(): PolicyServer {
  const sandbox = new Sandbox();
  return {
    name: 'Rowan',
    needs: () => undefined,
    async start(clients) {
      await sandbox.init();
      const input = ldif(clients, 'objectClass: rowanPwdPolicy\nrowanPwdTellLockout: TRUE\n');
      writeFileSync(sandbox.path('accounts.ldif'), input);
      await rowanDoes(['import', '--data', sandbox.data, sandbox.path('accounts.ldif')]);
      return (await sandbox.serve(['--passwords-policy', POLICY])).url;
    },
    remove: () => sandbox.remove(),
  };
}

/** Debian's slapd with the overlay ppolicy, in a folder of its own. */
export function slapdUnderPolicy(): PolicyServer {
  let folder: string | undefined;
  let stop: (() => Promise<unknown>) | undefined;
  return {
    name: 'slapd',
    needs: (context) => needs(context, 'slapd'),
    async start(clients) {
      folder = mkdtempSync(join(tmpdir(), 'rowan-slapd-'));
      mkdirSync(join(folder, 'db'));
      const conf = join(folder, 'slapd.conf');
      writeFileSync(conf, slapdConf(folder));
      writeFileSync(join(folder, 'accounts.ldif'), ldif(clients));
      const added = await run('slapadd', ['-q', '-f', conf, '-l', join(folder, 'accounts.ldif')]);
      expect(added.code, added.stderr).to.equal(0);
      const slapd = await startSlapd(conf);
      stop = slapd.stop;
      return slapd.url;
    },
    async remove() {
      await stop?.();
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

function slapdConf(folder: string): string {
  return `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
pidfile ${folder}/slapd.pid
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload ppolicy
database mdb
maxsize 16777216
suffix "${SUFFIX}"
rootdn "${ADMIN}"
rootpw "${PASSWORD}"
directory ${folder}/db
access to attrs=userPassword by self write by anonymous auth
access to * by users read
overlay ppolicy
ppolicy_default "${POLICY}"
ppolicy_use_lockout
`;
}
