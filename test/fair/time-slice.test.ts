import { expect } from 'chai';
import { type Client, TimeSlice } from '../../src/fair/time-slice.js';
import { turns } from '../turns.js';

describe('time slices', () => {
  /** Works in some slices for each client, named by its identity; who had them, in order. */
  async function slicesOf(
    work: readonly (readonly [name: string, client: Client])[],
    count: number,
    onSlice?: (name: string) => void,
  ): Promise<string> {
    const had: string[] = [];
    const run = async ([name, client]: (typeof work)[number]): Promise<void> => {
      const slice = new TimeSlice(client);
      for (let n = 0; n < count; n++) {
        await slice.yieldIfOver();
        had.push(name);
        onSlice?.(name);
      }
    };
    await turns(() => Promise.all(work.map(run)));
    return had.join('');
  }

  const client = (identity?: string): Client => ({
    identity: identity === undefined ? undefined : () => identity,
    isFull: false,
    waitForDrain: () => undefined,
  });

  it('go to users in turn, then to the clients of each, then to the work of each', async () => {
    const first = client('one');
    const work = [
      ['a', first],
      ['A', first],
      ['b', client('one')],
      ['x', client('other')],
      ['y', client()],
    ] as const;
    expect(await slicesOf(work, 2)).to.equal('axybxyAbaA');
  });

  it('go to nobody whose output is full until it has room', async () => {
    let drain = (): void => undefined;
    const drained = new Promise<void>((resolve) => {
      drain = resolve;
    });
    const full = { identity: () => 'one', isFull: true, waitForDrain: () => drained };
    const work = [
      ['a', full],
      ['A', full],
      ['b', client('one')],
      ['c', client('one')],
    ] as const;
    const onSlice = (name: string): void => {
      if (name !== 'c') return;
      full.isFull = false;
      drain();
    };
    expect(await slicesOf(work, 1, onSlice)).to.match(/^bc(aA|Aa)$/);
  });
});
