import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import type { ServedActor, ServedDirectory } from '../../src/server/services/services.js';

/** Compiles only while an operation cannot write for nobody in particular, nor maintain the directory. */
function forgetful(partition: ServedDirectory, dn: Parameters<Partition['delete']>[0]): unknown[] {
  return [
    // @ts-expect-error access is missing
    () => partition.add(dn, [], { dn: 'cn=someone' }),
    // @ts-expect-error access is missing
    () => partition.modify(dn, [], { dn: 'cn=someone', access: undefined }),
    // @ts-expect-error access is missing
    () => partition.rename(dn, { newRdn: 'cn=a', deleteOldRdn: true, newSuperior: undefined }, { dn: '' }),
    // @ts-expect-error access is missing
    () => partition.delete(dn, { dn: '', system: true }),
    // @ts-expect-error not for operations
    () => partition.restore,
    // @ts-expect-error not for operations
    () => partition.load,
    // @ts-expect-error not for operations
    () => partition.store.commit,
    // @ts-expect-error not for operations
    () => partition.context,
    (actor: ServedActor) => partition.delete(dn, actor),
  ];
}

describe('what operations are given', () => {
  it('writes for an actor with rights only: anything else does not compile', () => {
    expect(forgetful).to.be.a('function');
    expect(Partition).to.respondTo('add');
  });
});
