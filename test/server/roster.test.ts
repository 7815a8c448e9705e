import { expect } from 'chai';
import { Roster, type RosterMember } from '../../src/server/listen/listener.js';
import { seeded } from '../protocol/random.js';

interface Member extends RosterMember {
  readonly name: number;
}

describe('server: the roster of those who are there', () => {
  const names = (roster: Roster<Member>): number[] => [...roster].map(({ name }) => name).sort((a, b) => a - b);

  it(
    'has who came and did not go, in any order',
    seeded((random) => {
      const roster = new Roster<Member>();
      const there = new Map<number, Member>();
      for (let name = 0; name < 2000; name++) {
        const member = { name, rosterIndex: -1 };
        roster.add(member);
        there.set(name, member);
        while (there.size > 0 && random.chance(2)) {
          const gone = random.pick([...there.values()]);
          there.delete(gone.name);
          roster.delete(gone);
        }
      }
      expect(names(roster)).to.deep.equal([...there.keys()].sort((a, b) => a - b));
      expect(roster.size).to.equal(there.size);
    }),
  );

  it('may change while it is gone through', () => {
    const roster = new Roster<Member>();
    for (let name = 0; name < 10; name++) roster.add({ name, rosterIndex: -1 });
    const seen: number[] = [];
    for (const member of roster) {
      seen.push(member.name);
      roster.delete(member);
    }
    expect(seen).to.deep.equal([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(roster.size).to.equal(0);
  });

  it('is as it was when one goes that is not there', () => {
    const roster = new Roster<Member>();
    const member = { name: 1, rosterIndex: -1 };
    roster.add(member);
    roster.delete({ name: 2, rosterIndex: 0 });
    roster.delete({ name: 3, rosterIndex: -1 });
    expect(names(roster)).to.deep.equal([1]);
    roster.delete(member);
    roster.delete(member);
    expect(roster.size).to.equal(0);
  });
});
