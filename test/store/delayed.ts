import type { Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { faulty } from './faulty.js';

/**
 * A store as one beyond a network is: every call takes a round of the event loop, some take a millisecond, so that
 * answers overtake each other; and there are no snapshots, so that what a long search reads changes under it.
 */
export function delayedStore(): Store {
  let calls = 0;
  const store = faulty(openMemoryStore(), () => ({ do: 'delay', ms: 0, late: ++calls % 31 === 0 ? 1 : 0 }));
  const present = (more: object): Store =>
    new Proxy(store, {
      get(target, name) {
        const member = (Reflect.get(more, name) ?? Reflect.get(target, name)) as unknown;
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
  return present({
    supports: { ...store.supports, snapshot: false },
    snapshot: () => present({ close: () => undefined }),
  });
}
