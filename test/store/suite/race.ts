import { expect } from 'chai';
import { cellCounter } from '../../../src/store/row.js';
import { A, bytes, cell, codeOf, type Fixture, LOG, PEOPLE, scanAll } from './fixture.js';

const TABLE = PEOPLE.name;
const RACERS = 64;

export function raceSuite(f: Fixture): void {
  describe('races', () => {
    const counter = { family: A, qualifier: bytes('n') };

    it('lets one of many put what must be absent', async () => {
      const codes = await Promise.all(
        Array.from({ length: RACERS }, (_, i) =>
          codeOf(
            f.commit(
              { table: TABLE, key: bytes(`race/loser ${i}`), put: [cell(A, 'x', '')] },
              {
                table: TABLE,
                key: bytes('race/1'),
                guards: [{ op: 'absent', family: A, qualifier: bytes('id') }],
                put: [cell(A, 'id', String(i))],
              },
            ),
          ),
        ),
      );
      expect(codes.filter((code) => code === 'none')).to.have.length(1);
      expect(codes.filter((code) => code === 'guard')).to.have.length(RACERS - 1);
      const winner = codes.indexOf('none');
      const row = await f.store.get(TABLE, bytes('race/1'));
      expect(row!.subarray(-String(winner).length).toString()).to.equal(String(winner));
      const { keys } = await scanAll(f.store, TABLE, { from: bytes('race/loser'), to: bytes('race/loser~') });
      expect(keys).to.deep.equal([`race/loser ${winner}`]);
    });

    it('adds up what many add to one counter', async () => {
      await Promise.all(
        Array.from({ length: RACERS }, (_, i) =>
          f.commit({ table: TABLE, key: bytes('race/2'), add: [{ ...counter, by: BigInt(i) }] }),
        ),
      );
      const sum = cellCounter((await f.store.get(TABLE, bytes('race/2'))) ?? undefined, A, counter.qualifier);
      expect(sum).to.equal(BigInt((RACERS * (RACERS - 1)) / 2));
    });

    it('loses no update of those who read, guard and try again', async () => {
      const once = async (): Promise<void> => {
        for (;;) {
          const row = (await f.store.get(TABLE, bytes('race/3'))) ?? undefined;
          const value = cellCounter(row, A, counter.qualifier);
          const guards = [{ op: 'counterEquals', ...counter, value } as const];
          if (
            (await codeOf(f.commit({ table: TABLE, key: bytes('race/3'), guards, add: [{ ...counter, by: 1n }] }))) ===
            'none'
          )
            return;
        }
      };
      await Promise.all(Array.from({ length: 16 }, once));
      expect(cellCounter((await f.store.get(TABLE, bytes('race/3'))) ?? undefined, A, counter.qualifier)).to.equal(16n);
    });

    it('gives every one who appends a number of its own', async () => {
      const tag = { op: 'hasColumn', family: 0, qualifier: bytes('race') } as const;
      await Promise.all(
        Array.from({ length: RACERS }, () => f.commit({ table: LOG.name, append: [cell(0, 'race', '')] })),
      );
      expect((await scanAll(f.store, LOG.name, {}, { filter: tag })).keys).to.have.length(RACERS);
    });
  });
}
