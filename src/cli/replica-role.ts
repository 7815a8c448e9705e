import type { Logger } from 'pino';
import { trimChanges } from '../partition/feed/history.js';
import { FollowError, Follower, type ReplicaStatus } from '../replica/follower.js';
import { describeReplication, lossOf } from '../replica/report.js';
import { readReplicaState } from '../replica/state-file.js';
import type { Answer, Question } from '../server/processes/siblings.js';
import type { Store } from '../store/contract.js';
import { isHBaseUrl } from '../store/hbase/settings.js';
import { LOG_TABLE } from '../store/log.js';
import { CliError } from './exit.js';
import type { Route } from './http/http-server.js';
import { openStore } from './open-directory.js';
import type { Settings } from './options.js';

/** A replica runs no jobs. It trims its log this often, in ms. */
const HOUR_MS = 3_600_000;

/** What a served replica does besides serving: it follows its primary. */
export interface ReplicaRole {
  readonly follower: Follower;
  /** Resolves with the reason when the replica cannot follow any more. */
  readonly failed: Promise<Error>;
  stop(): Promise<void>;
}

/** Takes up an unfinished copy if the folder is a replica, until it is complete. */
export async function completeCopy(settings: Settings, log: Logger): Promise<void> {
  const state = isHBaseUrl(settings.store) ? undefined : readReplicaState(settings.store);
  if (!state?.copy) return;
  const store = await openStore(settings.store, settings.config, { create: true, anyRole: true });
  const follower = new Follower(store, settings.store);
  follower.onChange = (status) => logStatus(log, status);
  log.info({ of: state.of.join(' ') }, 'the copy of the primary goes on');
  try {
    await follower.run(new AbortController().signal, true);
  } catch (error) {
    throw replicaError(error, follower);
  } finally {
    await store.close();
  }
  log.info('the copy of the primary is complete');
}

/** Begins to follow if the folder is a replica. */
export function startReplica(settings: Settings, store: Store, log: Logger): ReplicaRole | undefined {
  if (isHBaseUrl(settings.store) || !readReplicaState(settings.store)) return undefined;
  const follower = new Follower(store, settings.store);
  follower.onChange = (status) => logStatus(log, status);
  const controller = new AbortController();
  Follower.ofProcess = follower;
  const trim = (): void => {
    trimChanges(store, Date.now() - settings.config.replica.logHours * HOUR_MS, undefined, LOG_TABLE.name).catch(
      (error: unknown) => log.error({ err: error }, 'the log is not trimmed'),
    );
  };
  trim();
  const trimTimer = setInterval(trim, HOUR_MS).unref();
  const run = follower.run(controller.signal);
  const failed = new Promise<Error>((resolve) => {
    run.catch((error: unknown) => resolve(replicaError(error, follower)));
  });
  const stop = async (): Promise<void> => {
    clearInterval(trimTimer);
    controller.abort();
    await run.catch(() => undefined);
    Follower.ofProcess = undefined;
  };
  return { follower, failed, stop };
}

function logStatus(log: Logger, status: ReplicaStatus): void {
  const { url, problem } = status;
  if (problem === undefined) log.info({ primary: url }, 'the primary is followed');
  else log.warn({ problem }, lossOf(status));
}

/** A replica that is behind the log begins its copy anew at the next start. */
export function replicaError(error: unknown, follower: Follower): Error {
  if (!(error instanceof FollowError)) return error as Error;
  if (error.refusal.reason !== 'behind') return new CliError(error.message);
  follower.beginCopy();
  return new CliError(`${error.message}; the next start copies the directory anew`);
}

/** Returns the route of the control socket that says who follows, and how far this server follows another. */
export function replicationRoute(ask: (question: Question) => Promise<Answer[]>, store: Store): Route {
  const handle = async (): Promise<{ body: string }> => {
    const lines = await describeReplication(store, await ask({ about: 'replicas' }));
    return { body: `${lines.join('\n')}\n` };
  };
  return { method: 'GET', path: '/replication', handle };
}
