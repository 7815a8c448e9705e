import type { Partition } from '../../partition/index.js';
import { secondsBehind } from '../../replica/report.js';
import type { Answer, Question } from '../../server/processes/siblings.js';
import { describeError } from '../exit.js';
import type { HttpReply, Route } from './http-server.js';

/** Time in which the store has to answer, in milliseconds. Load balancers wait for some seconds. */
const STORE_MS = 2000;

/** What the start and the end of a server mean for `/ready`. */
export type ServerPhase = 'copying' | 'starting' | 'serving' | 'stopping';

export interface HealthSource {
  currentPhase(): ServerPhase;
  /** Read while the server serves. */
  readonly partition: Partition;
  /** `replica.readyBehindSeconds`; 0: no limit. */
  readonly maxSecondsBehind?: () => number;
  readonly ask: (question: Question) => Promise<Answer[]>;
  /** Returns why another server is to be asked; undefined: none. */
  roleFault(): string | undefined;
}

/** Routes for load balancers and supervisors: whether the process lives, and whether a search would be answered. */
export function healthRoutes(source: HealthSource): Route[] {
  return [
    { method: 'GET', path: '/live', isPublic: true, handle: () => ({ body: 'live\n' }) },
    { method: 'GET', path: '/ready', isPublic: true, handle: () => readiness(source) },
  ];
}

async function readiness(source: HealthSource): Promise<HttpReply> {
  const { currentPhase, ask, maxSecondsBehind } = source;
  const phase = currentPhase();
  if (phase === 'copying') return notReady('the copy of the primary is not complete');
  if (phase !== 'serving') return notReady(phase === 'starting' ? 'the server is starting' : 'the server is stopping');
  const answers = await ask({ about: 'serving' });
  if (!answers.some(({ isServing }) => isServing)) return notReady('no process serves');
  const [follows] = (await ask({ about: 'replicas' })).flatMap((answer) => answer.follows ?? []);
  const behind = follows ? secondsBehind(follows) : 0;
  const maxBehind = maxSecondsBehind?.() ?? 0;
  if (maxBehind > 0 && behind > maxBehind) return notReady(`the replica is ${Math.round(behind)} s behind its primary`);
  const fault = source.roleFault() ?? (await storeFault(source.partition));
  return fault === undefined ? { body: 'ready\n' } : notReady(fault);
}

function notReady(reason: string): HttpReply {
  return { status: 503, body: `not ready: ${reason}\n` };
}

/** Reads the suffix entry from the store. Returns why this was not possible; undefined when the store has answered. */
async function storeFault(partition: Partition): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, STORE_MS, `the store has not answered within ${STORE_MS / 1000} s`);
  });
  try {
    return await Promise.race([readSuffix(partition), timeout]);
  } catch (error) {
    return `the store does not answer: ${describeError(error).split('\n', 1)[0]}`;
  } finally {
    clearTimeout(timer);
  }
}

/** A suffix without an entry is no fault: searches are answered with `noSuchObject`. */
async function readSuffix(partition: Partition): Promise<undefined> {
  await partition.refresh();
  const [suffix] = partition.suffixes;
  if (suffix) await partition.findRow(suffix);
  return undefined;
}
