import { expect } from 'chai';
import { Failure, failureOf } from '../../../../src/store/hbase/rpc/failure.js';
import { storeError } from '../../../../src/store/hbase/rpc/retry.js';

const HBASE = 'org.apache.hadoop.hbase';

describe('hbase/rpc failures', () => {
  it('are known by the class of the exception, wherever it lives', () => {
    const moved = failureOf(
      's:1',
      `${HBASE}.exceptions.RegionMovedException`,
      'x.RegionMovedException: Region moved to: hostname=a',
    );
    expect(moved.traits).to.include({ notApplied: true, moved: true, final: false });
    const large = failureOf('s:1', `${HBASE}.MultiActionResultTooLarge`, '');
    expect(large.traits).to.include({ notApplied: true, retryAtOnce: true });
    const queue = failureOf(
      's:1',
      `${HBASE}.CallQueueTooBigException`,
      `${HBASE}.CallQueueTooBigException: full\n\tat x`,
      {
        overloaded: true,
      },
    );
    expect(queue.traits).to.include({ notApplied: true, overloaded: true, final: false });
    expect(queue.message).to.equal('s:1: CallQueueTooBigException: full');
  });

  it('an unknown one is not taken for undone, and final only if the server says so', () => {
    for (const final of [true, false]) {
      const failure = failureOf('s:1', 'java.io.IOException', 'java.io.IOException: sync failed', { final });
      expect(failure.traits.notApplied).to.equal(undefined);
      expect(failure.traits.final).to.equal(final);
    }
    // A known one keeps its meaning: HBase marks some that it wants tried elsewhere.
    expect(failureOf('s:1', `${HBASE}.NotServingRegionException`, '', { final: true }).traits.final).to.equal(false);
  });

  it('become store errors that say what is known', () => {
    const codes = {
      TableNotFoundException: 'noTable',
      'regionserver.NoSuchColumnFamilyException': 'conflict',
      'security.AccessDeniedException': 'permission',
      RegionTooBusyException: 'unavailable',
    };
    for (const [name, code] of Object.entries(codes)) {
      expect(storeError(failureOf('s:1', `${HBASE}.${name}`, ''), 'no')).to.include({ code, applied: 'no' });
    }
    expect(storeError(new Failure('gone'), 'unknown')).to.include({ code: 'unavailable', applied: 'unknown' });
  });
});
