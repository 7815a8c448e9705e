import { parentPort } from 'node:worker_threads';

/** The worker thread's side of `judge.ts`: one job in, one answer out. */

export interface QualityJob {
  readonly clear: string;
  /** What its entry is called by. */
  readonly names: readonly string[];
  readonly dn: string;
  /** Strength that is needed, 0 to 4; 0: it is not estimated. */
  readonly score: number;
  /** URL of a module of the operator's own. */
  readonly check: string | undefined;
}

export type QualityAnswer =
  /** What is to be changed; undefined: nothing. */
  | { readonly reason: string | undefined }
  /** The operator's module cannot be used. */
  | { readonly fault: string };

/** What the module exports. */
type Check = (clear: string, about: { readonly dn: string; readonly names: readonly string[] }) => unknown;

const MOST_REASON = 300;

async function judge(job: QualityJob): Promise<QualityAnswer> {
  const { clear, names, score } = job;
  if (score > 0) {
    const { weakness } = await import('./strength.js');
    const reason = weakness(clear, names, score);
    if (reason !== undefined) return { reason };
  }
  return job.check === undefined ? { reason: undefined } : ownCheck(job, job.check);
}

async function ownCheck({ clear, names, dn }: QualityJob, url: string): Promise<QualityAnswer> {
  let given: unknown;
  try {
    const { default: check } = (await import(url)) as { readonly default: unknown };
    if (typeof check !== 'function') return { fault: 'it has no default export that is a function' };
    // Without a password it is asked whether it is there.
    if (clear === '') return { reason: undefined };
    given = await (check as Check)(clear, { dn, names: [...names] });
  } catch (error) {
    return { fault: `it throws ${whatWasThrown(error)}` };
  }
  if (given === undefined || given === null || given === true) return { reason: undefined };
  if (typeof given !== 'string' || given === '')
    return { fault: `it returns ${typeof given}, and neither a text nor undefined` };
  const reason = given.replace(/\p{C}/gu, ' ').slice(0, MOST_REASON);
  // What it says goes into an answer; the password does not.
  return { reason: reason.includes(clear) ? 'the password does not suit this site; choose another' : reason };
}

/** Kind and place: the message may hold the password. */
function whatWasThrown(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const place = error.stack?.split('\n').find((line) => /^\s+at /.test(line));
  const kind = /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : 'an error';
  const code = (error as NodeJS.ErrnoException).code;
  return `${kind}${typeof code === 'string' && /^[A-Z_]{1,40}$/.test(code) ? ` (${code})` : ''}${place ? ` ${place.trim()}` : ''}`;
}

const port = parentPort;
if (!port) throw new TypeError('quality-worker runs in a worker thread only');

port.on('message', (job: QualityJob) => {
  void judge(job).then((answer) => port.postMessage(answer));
});
