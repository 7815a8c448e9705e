/**
 * hbase-probe.mjs DIST URL flush | rates SECONDS PID: uses the HBase client of Rowan without a directory. `flush`
 * writes all tables from the memory of HBase to disk. `rates` prints as JSON the rates of the client alone; PID is the
 * HBase process.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { cpuSeconds } from './machine.mjs';

const [dist, url, task, seconds, hbasePid] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(join(dist, 'src/store/hbase', file)).href);
const { openHBaseStore } = await load('index.js');
const { hbaseSettings } = await load('settings.js');
const { MessageWriter, MessageReader } = await load('rpc/protobuf.js');

/** Number of keys to read. */
const MOST_KEYS = 100_000;
const MULTI = 100;
const FLUSH_MS = 120_000;

const settings = hbaseSettings({ url });
const store = await openHBaseStore(settings, { create: false });
const { client, cluster } = store;

/** ExecProcedureRequest: procedure 1 { signature 1, instance 2 }. IsProcedureDoneResponse: done 1. */
async function flush(table) {
  const procedure = new MessageWriter()
    .message(1, new MessageWriter().string(1, 'flush-table-proc').string(2, table))
    .finish();
  await client.callMaster('ExecProcedure', procedure);
  for (const end = Date.now() + FLUSH_MS; Date.now() < end; await sleep(100)) {
    const answer = new MessageReader(await client.callMaster('IsProcedureDone', procedure));
    while (answer.next()) {
      if (answer.field === 1 && answer.bool()) return;
      if (answer.field !== 1) answer.skip();
    }
  }
  throw new Error(`table ${table} is not flushed after ${FLUSH_MS} ms`);
}

async function masterKeys(table) {
  const keys = [];
  const scan = client.scan(table.handle, {}, { ...table.rowReads, keysOnly: true, limit: MOST_KEYS });
  for (let batch = await scan.next(); batch; batch = await scan.next()) keys.push(...batch.keys);
  return keys;
}

/**
 * Runs `callers` concurrent calls of `rows` rows each. Returns rows a second, and processor time of both sides per row
 * in µs.
 */
async function measure(name, callers, rows, ask) {
  const length = Number(seconds) * 1000;
  const before = { at: performance.now(), own: process.cpuUsage(), hbase: cpuSeconds(hbasePid) };
  let count = 0;
  const caller = async () => {
    while (performance.now() - before.at < length) {
      await ask();
      count += rows;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const taken = (performance.now() - before.at) / 1000;
  const { user, system } = process.cpuUsage(before.own);
  const hbase = (cpuSeconds(hbasePid) - before.hbase) * 1e6;
  return { name, callers, rate: count / taken, client: (user + system) / count, hbase: hbase / count };
}

async function rates() {
  const master = await cluster.table('master');
  const uid = await cluster.table('index_0.9.2342.19200300.100.1.1');
  const keys = await masterKeys(master);
  const any = () => keys[Math.floor(Math.random() * keys.length)];
  const get = () => client.get(master.handle, any(), master.rowReads);
  const many = () => client.getMany(master.handle, Array.from({ length: MULTI }, any), master.rowReads);
  const lookup = () => {
    const user = Math.floor(Math.random() * (keys.length - 2));
    const from = Buffer.from(`=user.${user}\0`);
    return client.lookup(uid.handle, { from, to: Buffer.from(`=user.${user}\x01`) }, 2, uid.rowReads);
  };
  await measure('warm up', 128, 1, get);
  return [
    await measure('get of a master row', 8, 1, get),
    await measure('get of a master row', 128, 1, get),
    await measure(`Multi of ${MULTI} gets, rows`, 1, MULTI, many),
    await measure(`Multi of ${MULTI} gets, rows`, 8, MULTI, many),
    await measure('look-up in the index of uid', 8, 1, lookup),
    await measure('look-up in the index of uid', 128, 1, lookup),
  ];
}

try {
  if (task === 'flush') {
    for (const { name } of await store.tables()) await flush((await cluster.table(name)).handle.name);
  } else process.stdout.write(JSON.stringify(await rates()));
} finally {
  await store.close();
}
