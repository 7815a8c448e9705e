import { expect } from 'chai';
import { Rounds } from '../../src/server/connection/rounds.js';

const round = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('server: rounds of requests', () => {
  it('senders have their turns one after another, some in a round, and none is forgotten', async () => {
    const rounds = new Rounds();
    const begun: string[] = [];
    const sender = (name: string, turns: number) => ({
      beginRequests(): void {
        begun.push(name);
        if (--turns > 0) rounds.enqueue(this, 3);
      },
    });
    const all = ['a', 'b', 'c', 'd'].map((name) => sender(name, 3));
    expect(rounds.remainingMs).to.equal(4);
    for (const one of all) rounds.enqueue(one, 1);
    expect(rounds.remainingMs, 'who comes now begins one request').to.equal(0);
    await round();
    expect(begun).to.deep.equal(['a', 'b']);
    expect(Math.sign(rounds.remainingMs)).to.equal(-1);
    await round();
    expect(begun.slice(2)).to.deep.equal(['c', 'd']);
    while (begun.length < 12) await round();
    expect(begun.join('')).to.equal('abcdabcdabcd');
    await round();
    expect(rounds.remainingMs).to.equal(4);
  });
});
