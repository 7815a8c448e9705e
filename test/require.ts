import { execFileSync, spawnSync } from 'node:child_process';

/** Programs that some tests need and a machine may lack: how to find out, and how to get them. */
interface Part {
  readonly present: () => boolean;
  readonly remedy: string;
  /** Even `ROWAN_TEST_REQUIRE=all` does without: it installs a service that starts, or the machine may forbid it. */
  readonly optional?: true;
}

function runs(program: string, ...args: string[]): boolean {
  const run = spawnSync(program, args, { stdio: 'ignore' });
  return run.error === undefined && run.status === 0;
}

function onPath(program: string): boolean {
  return runs('sh', '-c', 'command -v "$0"', program);
}

const JAVA_AND_MAVEN: Part = {
  // They are not run: each process that imports the engines asks.
  present: () => onPath('java') && onPath('mvn'),
  remedy: 'apt-get install openjdk-17-jdk-headless maven',
};

const parts = {
  'ldap-utils': { present: () => onPath('ldapsearch') && onPath('ldapmodify'), remedy: 'apt-get install ldap-utils' },
  'python3-ldap3': {
    present: () => runs('/usr/bin/python3', '-c', 'import ldap3'),
    remedy: 'apt-get install python3-ldap3',
  },
  'python3-ldap': {
    present: () => runs('/usr/bin/python3', '-c', 'import ldap.syncrepl'),
    remedy: 'apt-get install python3-ldap',
    optional: true,
  },
  /** Runs a program at a terminal. */
  script: { present: () => runs('script', '-qec', 'true', '/dev/null'), remedy: 'apt-get install bsdutils' },
  freeradius: {
    present: () => onPath('freeradius') && onPath('radclient'),
    remedy: 'apt-get install freeradius-ldap freeradius-utils',
  },
  haproxy: { present: () => onPath('haproxy'), remedy: 'apt-get install haproxy' },
  hbase: JAVA_AND_MAVEN,
  /** Tools of the UnboundID LDAP SDK, which Maven fetches. */
  unboundid: JAVA_AND_MAVEN,
  /** Changes no file: it works in mount namespaces, as root. */
  pam: {
    present: () => ['nslcd', 'pamtester', 'unshare', 'nsenter'].every(onPath) && process.getuid!() === 0,
    remedy: 'as root, apt-get install nslcd libpam-ldapd pamtester',
  },
  /** A file system of a few MiB, mounted in a namespace of its own. */
  'small-disk': {
    present: () => runs('unshare', '-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'),
    remedy: 'as root, or where users may make namespaces, apt-get install util-linux',
    optional: true,
  },
  slapd: { present: () => onPath('slapd') && onPath('slapadd'), remedy: 'apt-get install slapd', optional: true },
  doveadm: { present: () => onPath('doveadm'), remedy: 'apt-get install dovecot-core', optional: true },
  fail2ban: { present: () => onPath('fail2ban-regex'), remedy: 'apt-get install fail2ban' },
  systemd: { present: () => runs('systemd-notify', '--version'), remedy: 'apt-get install systemd' },
  /** Compiles the load generator of `npm run bench`. */
  gcc: { present: () => onPath('gcc'), remedy: 'apt-get install gcc libc6-dev' },
  openssl: { present: () => runs('openssl', 'version'), remedy: 'apt-get install openssl' },
} satisfies Record<string, Part>;

export type PartName = keyof typeof parts;

const known = new Map<PartName, boolean>();
const missing = new Map<PartName, string[]>();

export function isPresent(name: PartName): boolean {
  let present = known.get(name);
  if (present === undefined) {
    present = parts[name].present();
    known.set(name, present);
  }
  return present;
}

/**
 * Leaves out the running test, or all tests of the hook's suite, when a program it needs is not there. Under
 * `ROWAN_TEST_REQUIRE=all` that is a failure. `npm test` says at its end what was left out.
 */
export function needs(context: Mocha.Context, ...names: PartName[]): void {
  const absent = names.filter((name) => !isPresent(name));
  if (absent.length === 0) return;
  const remedies = absent.map((name) => `${name} (${parts[name].remedy})`).join(', ');
  const isRequired = absent.some((name) => !(parts[name] as Part).optional);
  if (isRequired && process.env.ROWAN_TEST_REQUIRE === 'all')
    throw new Error(`needs ${remedies}, and ROWAN_TEST_REQUIRE=all is set`);
  const title = (context.currentTest ?? context.test)?.fullTitle() ?? 'a test';
  for (const name of absent) missing.set(name, [...(missing.get(name) ?? []), title]);
  context.skip();
}

/** What `needs` left out: the part, how to get it, and the tests or hooks that wanted it. */
export function leftOut(): { part: PartName; remedy: string; tests: readonly string[] }[] {
  return [...missing].map(([part, tests]) => ({ part, remedy: parts[part].remedy, tests }));
}

/** A self-signed certificate for `localhost` and 127.0.0.1, valid for two days, made by openssl in `folder`. */
export function makeCertificate(folder: string, name = 'server', kind = 'ec'): { cert: string; key: string } {
  const newKey = kind === 'ec' ? ['ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'] : [kind];
  const cert = `${folder}/${name}.crt`;
  const key = `${folder}/${name}.key`;
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', ...newKey, '-nodes', '-days', '2'],
      ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
      ...['-keyout', key, '-out', cert],
    ],
    { stdio: 'ignore' },
  );
  return { cert, key };
}
