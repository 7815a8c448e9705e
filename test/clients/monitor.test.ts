import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import { Sandbox } from '../cli/rowan.js';
import { TwoWorkers } from '../cli/workers.js';
import { needs } from '../require.js';
import { type Answer, RawClient } from '../server/raw-client.js';
import { startSlapd } from './slapd.js';

type Scope = 'base' | 'one' | 'sub';

function ask(client: RawClient, base: string, filter: string, attributes: string[], scope: Scope = 'sub') {
  return client.search(base, { scope, filter: parseFilter(filter), attributes });
}

/** The numbers of the first values, by attribute and DN: the Go programs leave out what is no number. */
function numbers({ entries }: Answer): Map<string, number> {
  return new Map(
    entries.flatMap(({ dn, attributes }) =>
      [...attributes].flatMap(([type, [value]]) => {
        const text = String(value);
        return /^\d+$/.test(text) ? [[`${type} ${dn}`, Number(text)] as const] : [];
      }),
    ),
  );
}

/** How telegraf's input `ldap` names the fields of an entry, with `reverse_field_names`. */
function telegrafField(key: string): string {
  const [type = '', ...rest] = key.split(' ');
  const parts = rest.join('_').toLowerCase().replaceAll('cn=', '').split(',');
  const suffix = /^monitorOp(.*)$/.exec(type)?.[1];
  const names = parts.filter((part) => part !== 'monitor').reverse();
  return [...names, ...(suffix ? [suffix.toLowerCase()] : [])].join('_');
}

/** Fields in the documentation of telegraf's input. */
const TELEGRAF_FIELDS = [
  ...['current', 'max_file_descriptors', 'total'].map((name) => `connections_${name}`),
  ...['abandon', 'add', 'bind', 'compare', 'delete', 'extended', 'modify', 'modrdn', 'search', 'unbind'].flatMap(
    (name) => [`operations_${name}_initiated`, `operations_${name}_completed`],
  ),
  ...['bytes', 'entries', 'pdu', 'referrals'].map((name) => `statistics_${name}`),
  ...['active', 'backload', 'max', 'max_pending', 'open', 'pending', 'starting'].map((name) => `threads_${name}`),
  ...['time_uptime', 'waiters_read', 'waiters_write'],
];

/** What lib389, dsconf and telegraf's dialect `389ds` read of cn=Monitor. */
const NUMBERS_OF_389 = `currentconnections totalconnections dtablesize readwaiters opsinitiated opscompleted
  entriessent bytessent threads`.split(/\s+/);

describe('clients: monitoring tools', () => {
  const sandbox = new Sandbox();
  let two: TwoWorkers;
  let client: RawClient;

  before(async () => {
    await sandbox.initSample();
    two = await TwoWorkers.start(sandbox);
    client = await two.admin(1);
  });
  after(async () => {
    two.close();
    await two.server.stop();
    await sandbox.remove();
  });

  it('the figures are those of all workers, and of each', async () => {
    const other = await two.admin(2);
    const read = async (): Promise<Map<string, number>> =>
      numbers(await ask(client, 'cn=Monitor', '(cn=*)', ['*', '+']));
    const before = await read();
    for (let n = 0; n < 3; n++) await other.search('dc=nowhere');
    const after = await read();
    const gained = (key: string): number => after.get(key)! - before.get(key)!;
    const search = 'cn=Search,cn=Operations,cn=Monitor';
    expect(gained(`monitorOpInitiated ${search}`)).to.equal(4);
    expect(gained(`monitorOpCompleted ${search}`)).to.equal(4);
    expect(gained('monitorOpCompleted cn=Operations,cn=Monitor')).to.equal(4);
    expect(gained('opsinitiated cn=Monitor')).to.equal(4);
    expect(gained('monitorOpInitiated cn=Worker 1,cn=Workers,cn=Monitor')).to.equal(1);
    expect(gained('monitorOpInitiated cn=Worker 2,cn=Workers,cn=Monitor')).to.equal(3);
    // Four results, and the entries of the first search for figures.
    const entryCount = gained('monitorCounter cn=Entries,cn=Statistics,cn=Monitor');
    expect(entryCount).to.be.greaterThan(30);
    expect(gained('monitorCounter cn=PDU,cn=Statistics,cn=Monitor')).to.equal(entryCount + 4);
    expect(gained('bytessent cn=Monitor')).to.equal(gained('monitorCounter cn=Bytes,cn=Statistics,cn=Monitor'));
    expect(after.get('monitoredInfo cn=Open,cn=Threads,cn=Monitor')).to.equal(2);
    expect(after.get('monitoredInfo cn=Starting,cn=Threads,cn=Monitor')).to.equal(0);
    expect(after.get('monitoredInfo cn=Active,cn=Threads,cn=Monitor')).to.equal(1);
  });

  it('openldap_exporter and telegraf find what they ask for', async () => {
    const objects = numbers(await ask(client, 'cn=Monitor', '(objectClass=monitoredObject)', ['dn', 'monitoredInfo']));
    expect([...objects.keys()]).to.include('monitoredInfo cn=Uptime,cn=Time,cn=Monitor');
    const counters = await ask(client, 'cn=Monitor', '(objectClass=monitorCounterObject)', ['dn', 'monitorCounter']);
    expect([...numbers(counters).keys()]).to.include('monitorCounter cn=Total,cn=Connections,cn=Monitor');
    const operations = '(objectClass=monitorOperation)';
    const done = await ask(client, 'cn=Operations,cn=Monitor', operations, ['dn', 'monitorOpCompleted']);
    expect(numbers(done).size).to.equal(10);
    const attributes = ['monitorCounter', 'monitorOpInitiated', 'monitorOpCompleted', 'monitoredInfo'];
    const classes = ['monitorCounterObject', 'monitorOperation', 'monitoredObject'];
    const filter = `(|${classes.map((name) => `(objectClass=${name})`).join('')})`;
    const fields = [...numbers(await ask(client, 'cn=Monitor', filter, attributes)).keys()].map(telegrafField);
    expect(fields).to.include.members(TELEGRAF_FIELDS);
    expect(new Set(fields).size).to.equal(fields.length);
    const of389 = numbers(await ask(client, 'cn=Monitor', '(objectClass=*)', NUMBERS_OF_389));
    expect([...of389.keys()]).to.have.members(NUMBERS_OF_389.map((name) => `${name} cn=Monitor`));
    const [base] = (await ask(client, 'cn=monitor', '(currentconnections>=1)', [], 'base')).entries;
    expect(String(base!.attributes.get('starttime'))).to.match(/^\d{14}Z$/);
    expect(String(base!.attributes.get('version'))).to.match(/^Rowan \d/);
  });

  it('scopes, size limits, pages and names that are not there are as with stored entries', async () => {
    const dns = async (base: string, scope: Scope): Promise<string[]> =>
      (await ask(client, base, '(objectClass=*)', ['1.1'], scope)).entries.map(({ dn }) => dn);
    const waiters = ['cn=Read,cn=Waiters,cn=Monitor', 'cn=Write,cn=Waiters,cn=Monitor'];
    expect(await dns('cn=Waiters,cn=Monitor', 'one')).to.deep.equal(waiters);
    expect(await dns('CN=waiters, cn=monitor', 'sub')).to.deep.equal(['cn=Waiters,cn=Monitor', ...waiters]);
    expect(await dns('cn=Waiters,cn=Monitor', 'base')).to.deep.equal(['cn=Waiters,cn=Monitor']);
    expect(await dns('cn=Monitor', 'one')).to.include.members(['cn=Workers,cn=Monitor', 'cn=Jobs,cn=Monitor']);
    const limited = await client.search('cn=Monitor', { scope: 'sub', sizeLimit: 3 });
    expect([limited.code, limited.entries.length]).to.deep.equal([4, 3]);
    const missing = await ask(client, 'cn=Readers,cn=Waiters,cn=Monitor', '(objectClass=*)', []);
    expect([missing.code, missing.final.matchedDN]).to.deep.equal([32, 'cn=Waiters,cn=Monitor']);
    const anonymous = await two.open();
    for (const base of ['cn=Monitor', 'cn=Waiters,cn=Monitor', 'cn=none,cn=Monitor'])
      expect((await ask(anonymous, base, '(objectClass=*)', [])).code, base).to.equal(50);
  });

  it('has the entries of slapd, and their classes and attributes', async function () {
    needs(this, 'slapd');
    const folder = mkdtempSync(join(tmpdir(), 'rowan-slapd-'));
    const conf = join(folder, 'slapd.conf');
    writeFileSync(conf, `pidfile ${folder}/pid\ndatabase monitor\n`);
    const slapd = await startSlapd(conf);
    const slapdClient = await RawClient.open(slapd.port);
    const read = async (from: RawClient): Promise<Map<string, ReadonlyMap<string, readonly Buffer[]>>> => {
      const { entries } = await ask(from, 'cn=Monitor', '(objectClass=*)', ['*', '+']);
      return new Map(entries.map(({ dn, attributes }) => [dn, attributes]));
    };
    try {
      const [ours, theirs] = [await read(client), await read(slapdClient)];
      const subsystems = ['Connections', 'Operations', 'Statistics', 'Threads', 'Time', 'Waiters'];
      const isCompared = (dn: string): boolean =>
        dn === 'cn=Monitor' || subsystems.some((name) => dn.endsWith(`cn=${name},cn=Monitor`));
      // Of these Rowan has nothing to tell.
      const left = /^cn=(Connection \d+,cn=Connections|(State|Runqueue|Tasklist),cn=Threads),/;
      const compared = [...theirs].filter(([dn]) => isCompared(dn) && !left.test(dn));
      expect([...ours.keys()].filter(isCompared)).to.have.members(compared.map(([dn]) => dn));
      // Texts, users and times of slapd's own.
      const own = ['description', 'creatorsName', 'modifiersName', 'createTimestamp', 'modifyTimestamp'];
      for (const [dn, attributes] of compared) {
        const our = ours.get(dn)!;
        const names = [...attributes.keys()].filter((name) => !own.includes(name));
        expect([...our.keys()], dn).to.include.members(names);
        expect(our.get('objectClass')!.map(String), dn).to.include.members(attributes.get('objectClass')!.map(String));
        for (const name of ['structuralObjectClass', 'hasSubordinates', 'cn'])
          expect(String(our.get(name)), `${dn} ${name}`).to.equal(String(attributes.get(name)));
      }
    } finally {
      slapdClient.close();
      await slapd.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
