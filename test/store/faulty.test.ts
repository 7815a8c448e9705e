import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { type Fault, type FaultPoint, faulty } from './faulty.js';
import { bytes, cell, codeOfCall, errorOf } from './suite/fixture.js';
import { storeSuite } from './suite.js';

storeSuite('faulty over memory, without faults', async () => {
  const store = faulty(openMemoryStore(), () => undefined);
  return { store, cleanup: () => store.close() };
});

describe('faulty store', () => {
  const TABLE = 't';
  let strike: (point: FaultPoint) => Fault | undefined;
  let inner: Store;
  let store: Store;

  beforeEach(async () => {
    strike = () => undefined;
    inner = openMemoryStore();
    store = faulty(inner, (point) => strike(point));
    await store.createTable({ name: TABLE, families: [{ name: 'a' }] });
  });

  const put = (...keys: string[]) =>
    store.commit({
      steps: keys.map((key) => ({ table: TABLE, key: bytes(key), put: [cell(0, 'q', 'v')] })),
      decisive: 0,
    });
  const at = (name: FaultPoint['at'], fault: Fault) => {
    strike = (point) => (point.at === name ? fault : undefined);
  };

  it('fails a commit before it is applied: nothing was done', async () => {
    at('beforeCommit', { do: 'fail' });
    const error = await errorOf(put('k'));
    expect([error?.code, error?.applied]).to.deep.equal(['unavailable', 'no']);
    expect(await inner.get(TABLE, bytes('k'))).to.equal(undefined);
  });

  it('fails a commit after it is applied: the caller cannot know', async () => {
    at('afterCommit', { do: 'fail' });
    const error = await errorOf(put('k'));
    expect([error?.code, error?.applied]).to.deep.equal(['unavailable', 'unknown']);
    expect(await inner.get(TABLE, bytes('k'))).to.not.equal(undefined);
  });

  it('cuts an atomic plan at a step: none of it was done', async () => {
    strike = (point) => (point.at === 'step' && point.step === 1 ? { do: 'cut' } : undefined);
    expect((await errorOf(put('a', 'b', 'c')))?.applied).to.equal('unknown');
    expect(await inner.count(TABLE, {}, 10)).to.equal(0);
  });

  it('cuts a plan that is not atomic at a step: those before it were done', async () => {
    const single = new Proxy(inner, {
      get: (target, name) => {
        if (name === 'supports') return { ...target.supports, atomicPlan: false };
        const member = Reflect.get(target, name) as unknown;
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
    store = faulty(single, (point) => strike(point));
    strike = (point) => (point.at === 'step' && point.step === 2 ? { do: 'cut' } : undefined);
    expect((await errorOf(put('a', 'b', 'c')))?.applied).to.equal('unknown');
    expect(await inner.count(TABLE, {}, 10)).to.equal(2);
  });

  it('fails reads, scans and bulk loads where it is told to', async () => {
    await put('k');
    const calls: [FaultPoint['at'], () => unknown][] = [
      ['get', () => store.get(TABLE, bytes('k'))],
      ['getMany', () => store.getMany(TABLE, [bytes('k')])],
      ['scan', () => store.scan(TABLE, {}).next()],
      ['count', () => store.count(TABLE, {}, 1)],
      ['ingest', () => store.ingest([], { steps: [], decisive: 0 })],
    ];
    for (const [name, call] of calls) {
      at(name, { do: 'fail' });
      expect(await codeOfCall(call), name).to.equal('unavailable');
      strike = () => undefined;
      expect(await codeOfCall(call), name).to.equal('none');
    }
  });

  it('gives the error it was given', async () => {
    const error = new Error('own');
    at('get', { do: 'fail', error });
    expect(() => store.get(TABLE, bytes('k'))).to.throw(error);
  });

  it('delays and goes on', async () => {
    await put('k');
    at('get', { do: 'delay', ms: 1 });
    const answer = store.get(TABLE, bytes('k'));
    expect(answer).to.be.instanceOf(Promise);
    expect(await answer).to.not.equal(undefined);
  });
});
