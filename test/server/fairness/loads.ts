import type { Load } from './arena.js';
import { connectionLoads } from './connection-loads.js';
import { searchLoads, unread } from './search-loads.js';
import { writeLoads } from './write-loads.js';

/** By name; also those of `npm run bench -- fairness`. */
export const loads: Readonly<Record<string, Load>> = {
  ...searchLoads,
  '200 connections that ask for everything and do not read': unread(200, 5),
  'a connection with 1,000 searches that it does not read': unread(1, 1000),
  ...writeLoads,
  ...connectionLoads,
};
