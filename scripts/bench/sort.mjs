/**
 * npm run bench -- sort: how long a client waits for the first page of a sorted search, and for a window (virtual list
 * view), beside slapd's overlay sssvlv.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Attribute, Change, Client, Control } from 'ldapts';
import { makePeople } from './load.mjs';
import { isInstalled } from './machine.mjs';
import { formatRows, median } from './report.mjs';
import { ADMIN, BASE } from './rows.mjs';
import { Rowan, Slapd } from './servers.mjs';

const USAGE = `npm run bench -- sort [options]
  --entries N      people (100000)
  --turns N        requests of each kind, medians are taken (15)
  --no-slapd       Rowan alone
`;

/** Encodes a BER element. `content`: bytes, or elements. */
function ber(tag, ...content) {
  const bytes = Buffer.concat(content.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  const length = bytes.length < 128 ? [bytes.length] : [0x82, bytes.length >> 8, bytes.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), bytes]);
}

function integer(value) {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt32BE(value, 1);
  const start = bytes.findIndex((byte, i) => byte !== 0 || bytes[i + 1] >= 0x80 || i === 4);
  return ber(2, bytes.subarray(start));
}

class RawControl extends Control {
  constructor(oid, value) {
    super(oid, { critical: true });
    this.value = value;
  }

  writeControl(writer) {
    writer.writeBuffer(this.value, 4);
  }
}

function sorted(attribute, isReverse = false) {
  const reverse = isReverse ? [ber(0x81, Buffer.of(0xff))] : [];
  const parts = [ber(4, attribute), ber(0x80, 'caseIgnoreOrderingMatch'), ...reverse];
  return new RawControl('1.2.840.113556.1.4.473', ber(0x30, ber(0x30, ...parts)));
}

const page = new RawControl('1.2.840.113556.1.4.319', ber(0x30, integer(20), ber(4)));

function window(target) {
  return new RawControl('2.16.840.1.113730.3.4.9', ber(0x30, integer(0), integer(19), target));
}

const byOffset = (offset) => window(ber(0xa0, integer(offset), integer(0)));
const byValue = (value) => window(ber(0x81, value));

/** The measured requests. `change`: something is written before each of them. */
function rows(entries) {
  const offset = () => 1 + Math.floor(Math.random() * (entries - 20));
  return [
    { title: 'first page of 20 by sn (indexed)', controls: () => [sorted('sn'), page] },
    { title: 'the same, reversed', controls: () => [sorted('sn', true), page] },
    { title: 'first page of 20 by street (not indexed)', controls: () => [sorted('street'), page] },
    {
      title: 'first window of 20 by sn, after a change',
      controls: () => [sorted('sn'), byOffset(offset())],
      change: true,
    },
    { title: 'window by offset', controls: () => [sorted('sn'), byOffset(offset())] },
    { title: 'window by value', controls: () => [sorted('sn'), byValue(`Sur${Math.floor(Math.random() * 5000)}`)] },
    { title: 'window by offset, by street', controls: () => [sorted('street'), byOffset(offset())] },
  ];
}

/** Returns the median in milliseconds. */
async function measure(server, row, turns) {
  const times = [];
  const writer = new Client({ url: `ldap://127.0.0.1:${server.port}` });
  const client = new Client({ url: `ldap://127.0.0.1:${server.port}` });
  await writer.bind(ADMIN, server.password);
  await client.bind(ADMIN, server.password);
  const options = { scope: 'sub', filter: '(objectClass=person)', attributes: ['sn'] };
  try {
    for (let turn = 0; turn <= turns; turn++) {
      const modification = new Attribute({ type: 'title', values: [`turn ${turn}`] });
      if (row.change)
        await writer.modify(`uid=user.1,ou=people,${BASE}`, new Change({ operation: 'replace', modification }));
      const start = performance.now();
      const { searchEntries } = await client.search(BASE, options, row.controls());
      if (turn > 0) times.push(performance.now() - start);
      if (searchEntries.length !== 20) throw new Error(`${row.title}: ${searchEntries.length} entries`);
    }
  } finally {
    await client.unbind();
    await writer.unbind();
  }
  return median(times);
}

export async function main(root, args) {
  const { values: options } = parseArgs({
    args,
    options: {
      entries: { type: 'string', default: '100000' },
      turns: { type: 'string', default: '15' },
      'no-slapd': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (options.help) {
    process.stdout.write(USAGE);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'rowan-sort-'));
  const servers = [new Rowan(join(folder, 'rowan'), root)];
  if (!options['no-slapd'] && isInstalled('slapd')) {
    const slapd = new Slapd(join(folder, 'slapd'), root);
    slapd.globals = ['moduleload sssvlv'];
    slapd.lines = ['overlay sssvlv', 'sssvlv-max 100', 'sssvlv-maxperconn 50'];
    servers.push(slapd);
  }
  process.once('SIGINT', () => process.exit(130));
  process.once('exit', () => {
    for (const server of servers) server.process?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'people.ldif');
  makePeople(root, Number(options.entries), file);
  for (const server of servers) {
    server.load(file);
    await server.start();
  }
  const lines = [];
  for (const row of rows(Number(options.entries))) {
    const cells = [];
    for (const server of servers) {
      const ms = await measure(server, row, Number(options.turns)).catch((error) => error.message);
      cells.push(typeof ms === 'number' ? `${ms.toFixed(1)} ms` : ms);
    }
    process.stderr.write(`${row.title}  ${cells.join('  ')}\n`);
    lines.push([row.title, ...cells]);
  }
  for (const server of servers) await server.stop();
  process.stdout.write(`\n${formatRows([['median wait', ...servers.map(({ name }) => name)], ...lines])}\n`);
}
