import { getEventListeners } from 'node:events';
import { expect } from 'chai';
import { Connection } from '../../../../src/store/hbase/rpc/connection.js';
import { Failure } from '../../../../src/store/hbase/rpc/failure.js';
import { Attempts, Pauses } from '../../../../src/store/hbase/rpc/retry.js';
import { StoppedClock } from '../../../server/clock.js';
import { noStatistics, rpcSettings } from './settings.js';

const PAUSE_MS = 200;
const SETTINGS = rpcSettings({ operationTimeoutMs: 3_600_000, retryPauseMs: PAUSE_MS });

/** Notes how long is waited instead of waiting. */
class Noted extends Pauses {
  readonly asked: number[] = [];

  override async pause(ms: number): Promise<void> {
    this.asked.push(ms);
  }
}

const NOT_YET = new Failure('not yet', { isNotApplied: true });
const MOVED = new Failure('moved', { isNotApplied: true, isRegionMoved: true });
const BUSY = new Failure('busy', { isNotApplied: true, isOverload: true });

describe('hbase/rpc retries', () => {
  it('of operations of one caller that fail together wait as one, and longer the next time', async () => {
    using _clock = new StoppedClock();
    const pauses = new Noted();
    const attempts = new Attempts(SETTINGS, pauses);
    for (let round = 1; round <= 2; round++) {
      pauses.asked.length = 0;
      await Promise.all(Array.from({ length: 50 }, () => attempts.pause(NOT_YET, 'no')));
      expect(pauses.asked.length).to.equal(50);
      // The jitter is a quarter to each side; the pauses end at one time.
      for (const ms of pauses.asked) expect(ms).to.be.within(0.6 * round * PAUSE_MS, 1.25 * round * PAUSE_MS);
      await new Promise(setImmediate);
    }
  });

  it('without a pause let others have their turn, and what is overloaded has its pause beside them', async () => {
    using _clock = new StoppedClock();
    const pauses = new Noted();
    const attempts = new Attempts(SETTINGS, pauses);
    let turned = false;
    setImmediate(() => {
      turned = true;
    });
    const moved = attempts.pause(MOVED, 'no').then(() => turned);
    await Promise.all(Array.from({ length: 9 }, () => attempts.pause(BUSY, 'no')));
    expect(await moved).to.equal(true);
    expect(pauses.asked.length).to.equal(9);
    // They wait as one, five times as long as others: it was the second failure.
    for (const ms of pauses.asked) expect(ms).to.be.within(5 * PAUSE_MS, 2.5 * 5 * PAUSE_MS);
  });

  it('leave nothing behind of connections that do not come about', async () => {
    const { signal } = new AbortController();
    for (let n = 0; n < 20; n++) {
      const opening = Connection.open(
        '127.0.0.1:1',
        'ClientService',
        SETTINGS,
        noStatistics(),
        () => undefined,
        signal,
      );
      const error = await opening.catch((failure) => failure);
      expect(error).to.be.instanceOf(Failure);
    }
    expect(getEventListeners(signal, 'abort')).to.deep.equal([]);
  });
});
