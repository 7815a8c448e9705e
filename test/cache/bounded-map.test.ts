import { expect } from 'chai';
import { BoundedMap } from '../../src/cache/bounded-map.js';

function filled(map: BoundedMap<number, string>, count: number): BoundedMap<number, string> {
  for (let key = 0; key < count; key++) map.set(key, `value ${key}`);
  return map;
}

describe('bounded map', () => {
  it('keeps as many keys as it may', () => {
    expect([...filled(new BoundedMap(3), 3).keys()]).to.deep.equal([0, 1, 2]);
  });

  it('forgets all for one key more', () => {
    expect([...filled(new BoundedMap(3), 4)]).to.deep.equal([[3, 'value 3']]);
  });

  it('forgets the oldest, where it is told to', () => {
    expect([...filled(new BoundedMap(3, 'oldest'), 5).keys()]).to.deep.equal([2, 3, 4]);
  });

  it('forgets nothing for a new value of a key', () => {
    for (const forgets of ['all', 'oldest'] as const) {
      const map = filled(new BoundedMap(3, forgets), 3).set(1, 'another');
      expect([...map.values()]).to.deep.equal(['value 0', 'another', 'value 2']);
    }
  });
});
