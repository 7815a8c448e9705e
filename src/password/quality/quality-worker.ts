import { parentPort } from 'node:worker_threads';

// The program of the worker thread of `judge.ts`. Each job gets one answer.

export interface QualityJob {
  readonly clear: string;
  /** Names of the user. A password that consists of them is weak. */
  readonly names: readonly string[];
  readonly dn: string;
  /** The required strength, 0 to 4. With 0 the strength is not estimated. */
  readonly minScore: number;
  /** URL of the operator's own module. */
  readonly check: string | undefined;
}

export type QualityAnswer =
  /** The reason to refuse the password; undefined: the password is accepted. */
  | { readonly reason: string | undefined }
  /** The reason why the operator's module cannot be used. */
  | { readonly fault: string };

/** The function that the operator's module exports as default. */
type CheckModule = (clear: string, entry: { readonly dn: string; readonly names: readonly string[] }) => unknown;

/** The most characters of a reason. */
const MAX_REASON_LENGTH = 300;

async function judge(job: QualityJob): Promise<QualityAnswer> {
  const { clear, names, minScore } = job;
  if (minScore > 0) {
    const { weaknessReason: weakness } = await import('./strength.js');
    const reason = weakness(clear, names, minScore);
    if (reason !== undefined) return { reason };
  }
  return job.check === undefined ? { reason: undefined } : runCheck(job, job.check);
}

async function runCheck({ clear, names, dn }: QualityJob, url: string): Promise<QualityAnswer> {
  let result: unknown;
  try {
    const { default: check } = (await import(url)) as { readonly default: unknown };
    if (typeof check !== 'function') return { fault: 'it has no default export that is a function' };
    // A job without a password only checks that the module can be loaded.
    if (clear === '') return { reason: undefined };
    result = await (check as CheckModule)(clear, { dn, names: [...names] });
  } catch (error) {
    return { fault: `it throws ${describeThrown(error)}` };
  }
  if (result === undefined || result === null || result === true) return { reason: undefined };
  if (typeof result !== 'string' || result === '')
    return { fault: `it returns ${typeof result}, and neither a text nor undefined` };
  const reason = result.replace(/\p{C}/gu, ' ').slice(0, MAX_REASON_LENGTH);
  // The reason is sent to the client and must not contain the password.
  return { reason: reason.includes(clear) ? 'the password does not suit this site; choose another' : reason };
}

/** Describes an error by kind and place only, because the message may contain the password. */
function describeThrown(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const stackLine = error.stack?.split('\n').find((line) => /^\s+at /.test(line));
  const errorName = /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : 'an error';
  const code = (error as NodeJS.ErrnoException).code;
  return `${errorName}${typeof code === 'string' && /^[A-Z_]{1,40}$/.test(code) ? ` (${code})` : ''}${stackLine ? ` ${stackLine.trim()}` : ''}`;
}

const port = parentPort;
if (!port) throw new TypeError('quality-worker runs in a worker thread only');

port.on('message', (job: QualityJob) => {
  void judge(job).then((answer) => port.postMessage(answer));
});
