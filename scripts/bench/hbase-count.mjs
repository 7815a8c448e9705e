/**
 * Loaded into a front end before its own program (`node --import`): answers every message of the parent with what its
 * HBase client has counted. ROWAN_BENCH_DIST is the compiled form that the front end runs.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { HBaseClient } = await import(
  pathToFileURL(join(process.env.ROWAN_BENCH_DIST, 'src/store/hbase/rpc/client.js')).href
);

let client;
const { get } = HBaseClient.prototype;
/** The first get tells which client the store has; then all is as it was. */
HBaseClient.prototype.get = function (...args) {
  client = this;
  HBaseClient.prototype.get = get;
  return get.apply(this, args);
};

process.on('message', () => process.send(client.statistics));
// A front end ends when it is told to, not when its parent does.
process.channel.unref();
