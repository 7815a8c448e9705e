import { expect } from 'chai';
import { Failure, failureOfException } from '../../../../src/store/hbase/rpc/failure.js';
import { storeError } from '../../../../src/store/hbase/rpc/retry.js';

const HBASE = 'org.apache.hadoop.hbase';

describe('hbase/rpc failures', () => {
  it('are known by the class of the exception, wherever it lives', () => {
    const moved = failureOfException(
      's:1',
      `${HBASE}.exceptions.RegionMovedException`,
      'x.RegionMovedException: Region moved to: hostname=a',
    );
    expect(moved.traits).to.include({ isNotApplied: true, isRegionMoved: true, isFinal: false });
    const large = failureOfException('s:1', `${HBASE}.MultiActionResultTooLarge`, '');
    expect(large.traits).to.include({ isNotApplied: true, canRetryAtOnce: true });
    const queue = failureOfException(
      's:1',
      `${HBASE}.CallQueueTooBigException`,
      `${HBASE}.CallQueueTooBigException: full\n\tat x`,
      {
        isOverload: true,
      },
    );
    expect(queue.traits).to.include({ isNotApplied: true, isOverload: true, isFinal: false });
    expect(queue.message).to.equal('s:1: CallQueueTooBigException: full');
  });

  it('an unknown one is not taken for undone, and final only if the server says so', () => {
    for (const isFinal of [true, false]) {
      const failure = failureOfException('s:1', 'java.io.IOException', 'java.io.IOException: sync failed', { isFinal });
      expect(failure.traits.isNotApplied).to.equal(undefined);
      expect(failure.traits.isFinal).to.equal(isFinal);
    }
    // A known one keeps its meaning: HBase marks some that it wants tried elsewhere.
    expect(
      failureOfException('s:1', `${HBASE}.NotServingRegionException`, '', { isFinal: true }).traits.isFinal,
    ).to.equal(false);
  });

  it('become store errors that say what is known', () => {
    const codes = {
      TableNotFoundException: 'noTable',
      'regionserver.NoSuchColumnFamilyException': 'conflict',
      'security.AccessDeniedException': 'permission',
      RegionTooBusyException: 'unavailable',
    };
    for (const [name, code] of Object.entries(codes)) {
      expect(storeError(failureOfException('s:1', `${HBASE}.${name}`, ''), 'no')).to.include({ code, applied: 'no' });
    }
    expect(storeError(new Failure('gone'), 'unknown')).to.include({ code: 'unavailable', applied: 'unknown' });
  });
});
