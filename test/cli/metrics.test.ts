import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { makeCertificate, needs } from '../require.js';
import { RawClient } from '../server/raw-client.js';
import { ADMIN, heard, PASSWORD, PEOPLE, type RunningServer, Sandbox } from './rowan.js';
import { childrenOf, counters, fallen, type Series, scrape, total } from './scrape.js';
import { addPerson } from './workers.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));

interface Documented {
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

/** The tables of docs/metrics.md. */
function documented(): Map<string, Documented> {
  const page = readFileSync(`${root}docs/metrics.md`, 'utf8');
  const rows = page.matchAll(/^\| `(rowan_\w+)` \| (\w+) \| (.*?) \| (.*) \|$/gm);
  return new Map(
    [...rows].map(([, name, type, labels, help]) => [
      name!,
      { type: type!, labels: [...labels!.matchAll(/\w+/g)].map(String), help: help! },
    ]),
  );
}

/** Costs the server much more than the client that sends it. */
const COSTLY: Filter = {
  type: 'or',
  filters: Array.from({ length: 300 }, (_, n) => ({
    type: 'equal' as const,
    attribute: 'street',
    value: Buffer.from(`nowhere ${n}`),
  })),
};

describe('cli: metrics', () => {
  const sandbox = new Sandbox();
  const clients: RawClient[] = [];
  let server: RunningServer;

  before(() => sandbox.initSample());
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await server?.stop();
  });
  after(() => sandbox.remove());

  async function open(): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    clients.push(client);
    return client;
  }

  it('are those of docs/metrics.md, with the help that stands there', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    server = await sandbox.serve(['--http', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key]);
    const client = await open();
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    expect(await client.bind(ADMIN, 'wrong')).to.equal(49);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    expect((await addPerson(client, 'counted', '{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA')).code).to.equal(0);
    const { families, series: now } = await scrape(server);
    const labelsOf = (name: string): string[] => {
      const labels = now
        .filter((one) => one.name.replace(/_(?:bucket|sum|count)$/, '') === name)
        .map((one) => one.labels);
      return [...new Set(labels.flatMap((one) => Object.keys(one)))].filter((label) => label !== 'le');
    };
    const served = families.map(({ name, type, help }) => [
      name,
      { type: type.toLowerCase(), labels: labelsOf(name), help },
    ]);
    expect(Object.fromEntries(served)).to.deep.equal(
      Object.fromEntries([...documented()].filter(([name]) => !name.startsWith('rowan_replica_'))),
    );
    const binds = (result: string): number => total(now, 'rowan_operations_total', { operation: 'bind', result });
    expect([binds('success'), binds('invalidCredentials')]).to.deep.equal([3, 1]);
    expect(total(now, 'rowan_operation_duration_seconds_count', { operation: 'bind' })).to.equal(4);
    expect(total(now, 'rowan_operation_duration_seconds_bucket', { operation: 'bind', le: '+Inf' })).to.equal(4);
    // The first password, the wrong one, and none of the two that were known.
    expect(total(now, 'rowan_password_cache_hits_total')).to.equal(2);
    expect(total(now, 'rowan_password_cache_misses_total')).to.equal(2);
    expect(total(now, 'rowan_committed_writes_total')).to.be.greaterThan(0);
    expect(total(now, 'rowan_commits_total')).to.be.greaterThan(0);
    expect(total(now, 'rowan_certificate_expiry_timestamp_seconds') * 1000).to.be.within(
      Date.now() + 86_400_000,
      Date.now() + 3 * 86_400_000,
    );
  });

  it('of docs/grafana-dashboard.json are documented', () => {
    const dashboard = JSON.parse(readFileSync(`${root}docs/grafana-dashboard.json`, 'utf8')) as {
      panels: { title: string; targets?: { expr: string }[] }[];
    };
    const known = documented();
    const names = dashboard.panels.flatMap(({ title, targets = [] }) =>
      targets.flatMap(({ expr }) => {
        expect(expr, title).to.match(/rowan_/);
        return [...expr.matchAll(/rowan_\w+/g)].map(([name]) => name.replace(/_(?:bucket|sum|count)$/, ''));
      }),
    );
    expect(names.filter((name) => !known.has(name))).to.deep.equal([]);
    expect(names).to.include.members(['rowan_saturation_ratio', 'rowan_operation_duration_seconds']);
  });

  it('have the right sums with four workers, also while one is killed and starts again', async () => {
    server = await sandbox.serve(['--http', '127.0.0.1:0', '--workers', '4']);
    const { pid } = server.process;
    const searches = (now: readonly Series[], worker?: string): number =>
      total(now, 'rowan_operations_total', { operation: 'search', ...(worker === undefined ? {} : { worker }) });
    for (let n = 0; n < 8; n++) {
      const client = await open();
      for (let times = 0; times < 5; times++) expect((await client.search('', { scope: 'base' })).code).to.equal(0);
    }
    let now = await counters(server);
    expect(searches(now)).to.equal(40);
    expect(['0', '1', '2', '3', '4'].map((worker) => searches(now, worker))).to.deep.equal([0, 10, 10, 10, 10]);
    expect(total(now, 'rowan_entries_sent_total')).to.equal(40);
    expect(total(now, 'rowan_connections_opened_total')).to.equal(8);
    const before = now;
    const again = heard(server.process, 'the worker serves');
    process.kill(childrenOf(pid!)[0]!, 'SIGKILL');
    let isServing = false;
    again.then(
      () => {
        isServing = true;
      },
      () => undefined,
    );
    for (let isLast = false; !isLast; ) {
      isLast = isServing;
      const next = await counters(server);
      expect(fallen(now, next)).to.deep.equal([]);
      expect(searches(next)).to.equal(40);
      now = next;
    }
    await again;
    for (let n = 0; n < 4; n++) expect((await (await open()).search('', { scope: 'base' })).code).to.equal(0);
    const after = await counters(server);
    expect(fallen(before, after)).to.deep.equal([]);
    expect(searches(after)).to.equal(44);
    expect(total(after, 'rowan_connections_opened_total')).to.equal(12);
  });

  it('keep what a worker counted that ends because the server is idle', async () => {
    server = await sandbox.serve(['--http', '127.0.0.1:0'], { env: { ROWAN_AUTO_WORKERS: '2,300,600' } });
    const first = await open();
    expect(await first.bind(ADMIN, PASSWORD)).to.equal(0);
    let sent = 0;
    const search = async (client: RawClient, filter?: Filter): Promise<void> => {
      sent++;
      expect((await client.search(PEOPLE, { scope: 'sub', ...(filter && { filter }) })).code).to.equal(0);
    };
    let isBusy = true;
    const busy = Array.from({ length: 8 }, async () => {
      while (isBusy) await search(first, COSTLY);
    });
    await heard(server.process, 'the worker serves');
    // The first process stays busy until here, so that the worker does not end before its searches are counted.
    const second = await open();
    expect(await second.bind(ADMIN, PASSWORD)).to.equal(0);
    for (let n = 0; n < 5; n++) await search(second);
    const ended = heard(server.process, 'a worker ends with its connections');
    isBusy = false;
    await Promise.all(busy);
    second.close();
    const before = await counters(server);
    await ended;
    while (childrenOf(server.process.pid!).some((pid) => pid > 0))
      expect(fallen(before, await counters(server))).to.be.empty;
    const after = await counters(server);
    expect(fallen(before, after)).to.deep.equal([]);
    expect(total(after, 'rowan_operations_total', { operation: 'search' })).to.equal(sent);
    expect(total(after, 'rowan_operations_total', { operation: 'search', worker: '2' })).to.equal(5);
  });
});
