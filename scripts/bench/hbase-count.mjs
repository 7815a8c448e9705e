/**
 * Loaded into a front end before its own program (`node --import`). Answers every message of the parent with the counts
 * of the HBase client. ROWAN_BENCH_DIST is the compiled form that the front end runs.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { HBaseClient } = await import(
  pathToFileURL(join(process.env.ROWAN_BENCH_DIST, 'src/store/hbase/rpc/client.js')).href
);

let client;
const { get } = HBaseClient.prototype;
/** The first get reveals the client of the store; the method is then restored. */
HBaseClient.prototype.get = function (...args) {
  client = this;
  HBaseClient.prototype.get = get;
  return get.apply(this, args);
};

process.on('message', () => process.send(client.statistics));
// A front end ends on command, not with its parent.
process.channel.unref();
