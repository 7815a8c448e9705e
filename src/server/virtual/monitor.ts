import { chain, type Maybe } from '../../partition/index.js';
import { generalizedTime } from '../../partition/model/csn.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import { openFilesLimit } from '../processes/open-files.js';
import type { Siblings } from '../processes/siblings.js';
import { type Counts, countEnded, OPS, type Statistics, sumCounts } from '../processes/statistics.js';
import type { Config } from '../settings/index.js';
import { orLastKnown } from '../words/last-known.js';
import { VENDOR, VERSION } from '../words/version.js';

/** Attribute types with the text of their values. */
export type VirtualAttributes = readonly (readonly [type: string, values: readonly string[]])[];

/** An entry whose attributes are computed when a search reads the entry. */
export interface ComputedEntry {
  readonly dn: string;
  attributes(): Maybe<VirtualAttributes>;
}

export const MONITOR_DN = 'cn=Monitor';

/** Object class of the entries with an attribute. */
const CLASSES = {
  monitorCounter: 'monitorCounterObject',
  monitoredInfo: 'monitoredObject',
  monitorOpCompleted: 'monitorOperation',
} as const;

/** Values by attribute type. An undefined value is left out. */
type Values = Readonly<Record<string, number | string | readonly string[] | undefined>>;

/** The counters of all processes, and the sum. */
interface Figures {
  readonly total: Counts;
  /** The processes that serve, by number. */
  readonly processes: readonly Counts[];
  readonly own: Counts;
  readonly isAlone: boolean;
  readonly config: Config;
}

/** The entries of cn=Monitor in the layout of slapd, without cn=Jobs. The figures are those of all processes. */
export function monitorEntries(
  statistics: Statistics,
  siblings: Siblings | undefined,
  config: Config,
): Maybe<ComputedEntry[]> {
  const own = statistics.counts();
  const isAlone = !siblings || siblings.isAlone;
  return chain(siblings?.ask({ about: 'counts' }) ?? [], (answers) => {
    const allCounts: [Counts, ...Counts[]] = [own, ...answers.flatMap(({ counts }) => counts ?? [])];
    // Number 0 is the supervisor, which does not serve; without a process id counts are totals of ended processes.
    const processes = isAlone ? [own] : allCounts.filter(({ workerNumber, pid }) => workerNumber > 0 && pid > 0);
    processes.sort((a, b) => a.workerNumber - b.workerNumber);
    const figures = { total: sumCounts(allCounts), processes, own, isAlone, config };
    return [baseEntry(figures), ...subsystemEntries(figures)];
  });
}

/** The base entry has the attributes of 389's cn=monitor, too. */
function baseEntry({ total, processes, own, isAlone }: Figures): ComputedEntry {
  const { initiated, completed } = sumOperations(total);
  const startTime = generalizedTime(total.startedAt);
  const workerTexts = isAlone ? [] : [`worker: ${own.workerNumber}`, ...processes.flatMap(workerFigures)];
  const version = `${VENDOR} ${VERSION}`;
  const values: Values = {
    description: [`version: ${VERSION}`, ...figureTexts(total), ...workerTexts],
    monitoredInfo: version,
    monitorTimestamp: startTime,
    version,
    threads: processes.length,
    currentconnections: total.connectionsCurrent,
    totalconnections: total.connectionsTotal,
    dtablesize: openFilesLimit(process.pid),
    readwaiters: total.connectionsWaiting,
    opsinitiated: initiated,
    opscompleted: completed,
    entriessent: total.entriesSent,
    bytessent: total.bytesSent,
    currenttime: generalizedTime(Date.now()),
    starttime: startTime,
    createTimestamp: startTime,
  };
  return makeEntry(MONITOR_DN, 'Monitor', ['monitorServer', 'extensibleObject'], values, true);
}

function figureTexts(counts: Counts): string[] {
  return [
    `uptimeSeconds: ${uptimeSeconds(counts)}`,
    `connectionsCurrent: ${counts.connectionsCurrent}`,
    `connectionsTotal: ${counts.connectionsTotal}`,
    `connectionsRefused: ${counts.connectionsRefused}`,
    `entriesSent: ${counts.entriesSent}`,
    `memoryBytes: ${counts.memoryBytes}`,
    ...Object.entries(counts.operations).map(([name, count]) => `operations.${name}: ${count}`),
  ];
}

function workerFigures(counts: Counts): string[] {
  const { workerNumber: worker, pid, memoryBytes, connectionsCurrent } = counts;
  return [
    `worker.${worker}.pid: ${pid}`,
    `worker.${worker}.connectionsCurrent: ${connectionsCurrent}`,
    `worker.${worker}.memoryBytes: ${memoryBytes}`,
    `worker.${worker}.operations: ${sumOperations(counts).initiated}`,
  ];
}

function subsystemEntries({ total, processes, config }: Figures): ComputedEntry[] {
  const { initiated, completed } = sumOperations(total);
  const active = Math.max(0, initiated - completed);
  const { connectionsCurrent, connectionsUnread, connectionsWaiting: pending } = total;
  const maxProcesses = config.workers === 'auto' ? processes.length : Math.max(config.workers, processes.length);
  const sentMessages = total.entriesSent + total.referencesSent + total.resultsSent;
  return [
    ...subsystem('Connections', 'monitorCounter', {
      'Max File Descriptors': openFilesLimit(process.pid),
      Total: total.connectionsTotal,
      Current: connectionsCurrent,
    }),
    ...subsystem(
      'Operations',
      'monitorOpCompleted',
      Object.fromEntries(
        OPS.map((op) => [slapdName(op), operationCounts(total.operations[op], countEnded(total.ended[op]))]),
      ),
      operationCounts(initiated, completed),
    ),
    ...subsystem('Statistics', 'monitorCounter', {
      Bytes: total.bytesSent,
      PDU: sentMessages,
      Entries: total.entriesSent,
      Referrals: total.referencesSent,
    }),
    ...subsystem('Threads', 'monitoredInfo', {
      Max: maxProcesses,
      'Max Pending': 0,
      Open: processes.length,
      Starting: maxProcesses - processes.length,
      Active: active,
      Pending: pending,
      Backload: active + pending,
    }),
    ...subsystem('Time', 'monitoredInfo', {
      Start: { monitorTimestamp: generalizedTime(total.startedAt) },
      Current: { monitorTimestamp: generalizedTime(Date.now()) },
      Uptime: uptimeSeconds(total),
    }),
    ...subsystem('Waiters', 'monitorCounter', {
      Read: Math.max(0, connectionsCurrent - connectionsUnread),
      Write: connectionsUnread,
    }),
    ...subsystem(
      'Workers',
      'monitoredInfo',
      Object.fromEntries(processes.map((counts) => [`Worker ${counts.workerNumber}`, workerValues(counts)])),
    ),
  ];
}

/** Returns the RDN value of an operation in the cn=Monitor of slapd. */
function slapdName(op: (typeof OPS)[number]): string {
  return op === 'modifyDN' ? 'Modrdn' : op.charAt(0).toUpperCase() + op.slice(1);
}

function operationCounts(monitorOpInitiated: number, monitorOpCompleted: number): Values {
  return { monitorOpInitiated, monitorOpCompleted };
}

function workerValues(counts: Counts): Values {
  const { initiated, completed } = sumOperations(counts);
  const figures = [`pid: ${counts.pid}`, `busyMs: ${Math.round(counts.busyMs)}`, ...figureTexts(counts)];
  return { description: figures, ...operationCounts(initiated, completed) };
}

/** A container right below cn=Monitor, and its children with the figures: a value of `attribute`, or several values. */
function subsystem(
  name: string,
  attribute: keyof typeof CLASSES,
  figures: Readonly<Record<string, number | Values | undefined>>,
  containerValues: Values = {},
): ComputedEntry[] {
  const dn = `cn=${name},${MONITOR_DN}`;
  const children = Object.entries(figures).flatMap(([childName, figure]) => {
    if (figure === undefined) return [];
    const values = typeof figure === 'number' ? { [attribute]: figure } : figure;
    return makeEntry(`cn=${childName},${dn}`, childName, [CLASSES[attribute]], values);
  });
  return [makeEntry(dn, name, ['monitorContainer'], containerValues, true), ...children];
}

const NOT_KNOWN = ['not known: the store does not answer'];

/** An entry right below cn=Monitor with texts that are read for each search. */
export function textEntry(name: string, readLines: () => Promise<string[]>): ComputedEntry {
  const dn = `cn=${name},${MONITOR_DN}`;
  const classes = ['monitoredObject', 'extensibleObject'] as const;
  return {
    dn,
    attributes: () =>
      chain(orLastKnown(readLines(), NOT_KNOWN), (lines) =>
        makeEntry(dn, name, classes, { description: lines }).attributes(),
      ),
  };
}

function makeEntry(
  dn: string,
  name: string,
  [structuralClass, ...otherClasses]: readonly [string, ...string[]],
  values: Values,
  hasChildren = false,
): ComputedEntry {
  const attributes: VirtualAttributes = [
    ['objectClass', ['top', 'monitor', structuralClass, ...otherClasses]],
    ['cn', [name]],
    ...Object.entries(values).map(([type, value]) => [type, [value ?? []].flat().map(String)] as const),
    ['entryDN', [dn]],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', [structuralClass]],
    ['hasSubordinates', [hasChildren ? 'TRUE' : 'FALSE']],
  ];
  return { dn, attributes: () => attributes };
}

function uptimeSeconds({ startedAt }: Counts): number {
  return Math.floor((Date.now() - startedAt) / 1000);
}

function sumOperations({ operations, ended }: Counts): { initiated: number; completed: number } {
  const initiated = Object.values(operations).reduce((sum, count) => sum + count, 0);
  const completed = Object.values(ended).reduce((sum, counts) => sum + countEnded(counts), 0);
  return { initiated, completed };
}
