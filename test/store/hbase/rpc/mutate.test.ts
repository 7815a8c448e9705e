import { expect } from 'chai';
import type { Guard } from '../../../../src/store/contract.js';
import type { HBaseClient } from '../../../../src/store/hbase/rpc/client.js';
import type { RowMutation, TableHandle } from '../../../../src/store/hbase/rpc/rpc-types.js';
import { cellCounter, cellValue, counterBytes, packRow, unpackRow } from '../../../../src/store/row.js';
import { hbase } from '../../../hbase/server.js';
import { bytes, cell, codeOf, errorOf } from '../../suite/fixture.js';
import { Cluster } from './cluster.js';

const name = (qualifier: string, family = 0) => ({ family, qualifier: bytes(qualifier) });

describe('hbase/rpc mutations', () => {
  let cluster: Cluster;
  let client: HBaseClient;
  let table: TableHandle;

  before(async function () {
    cluster = new Cluster(await hbase(this));
    client = cluster.client();
    table = await cluster.table(['0', '1', '2']);
    await cluster.regions(table).split(bytes('m'));
  });

  after(async () => {
    await cluster?.end();
  });

  /** The row as `family:qualifier=value`, counters as numbers. */
  async function row(key: string): Promise<string> {
    const found = await client.get(table, bytes(key));
    return unpackRow(found ?? Buffer.alloc(0))
      .map(({ family, qualifier, value }) => {
        const counter = qualifier.toString().startsWith('n');
        return `${family}:${qualifier}=${counter ? value.readBigInt64BE() : value}`;
      })
      .join(' ');
  }

  const put = (key: string, ...cells: ReturnType<typeof cell>[]) =>
    client.mutate(table, { key: bytes(key), put: cells });

  it('put, delete and add in one atomic step, and answer whether it was done', async () => {
    expect(await put('mixed', cell(0, 'a', '1'), cell(1, 'b', '2'), cell(2, 'c', '3'))).to.equal(true);
    const mutation: RowMutation = {
      key: bytes('mixed'),
      guards: [{ op: 'equals', ...name('a'), value: bytes('1') }],
      put: [cell(0, 'a', '2'), cell(2, 'd', '')],
      delete: [name('b', 1), name('absent', 1)],
      add: [
        { ...name('n'), by: 5n },
        { ...name('n', 2), by: -7n },
      ],
    };
    expect(await client.mutate(table, mutation)).to.equal(true);
    expect(await row('mixed')).to.equal('0:a=2 0:n=5 2:c=3 2:d= 2:n=-7');
    expect(await client.mutate(table, mutation)).to.equal(false);
    expect(await row('mixed')).to.equal('0:a=2 0:n=5 2:c=3 2:d= 2:n=-7');
  });

  it('without guards, mixed too', async () => {
    await put('plain', cell(0, 'a', '1'));
    await client.mutate(table, {
      key: bytes('plain'),
      put: [cell(1, 'b', '1')],
      delete: [name('a')],
      add: [{ ...name('n'), by: 1n }],
    });
    expect(await row('plain')).to.equal('0:n=1 1:b=1');
    expect(await client.mutate(table, { key: bytes('plain') })).to.equal(true);
    // A name that is both deleted and put is put.
    await client.mutate(table, { key: bytes('plain'), delete: [name('b', 1)], put: [cell(1, 'b', '2')] });
    expect(await row('plain')).to.equal('0:n=1 1:b=2');
  });

  it('deletes the whole row, and puts anew after it where a timestamp says so', async () => {
    await client.mutate(table, { key: bytes('gone'), put: [cell(0, 'a', '1'), cell(2, 'b', '2')], timestamp: 100n });
    await client.mutate(table, { key: bytes('gone'), deleteRow: true, put: [cell(1, 'c', '3')], timestamp: 101n });
    expect(await row('gone')).to.equal('1:c=3');
    await client.mutate(table, {
      key: bytes('gone'),
      delete: [name('c', 1)],
      put: [cell(0, 'a', '4')],
      timestamp: 102n,
    });
    expect(await row('gone')).to.equal('0:a=4');
    await client.mutate(table, { key: bytes('gone'), deleteRow: true });
    expect(await client.get(table, bytes('gone'))).to.equal(undefined);
    const refused: RowMutation[] = [
      { key: bytes('x'), deleteRow: true, put: [cell(0, 'a', '1')] },
      { key: bytes('x'), deleteRow: true, add: [{ ...name('n'), by: 1n }], timestamp: 5n },
      { key: bytes('x'), put: [cell(0, 'n', '1')], add: [{ ...name('n'), by: 1n }] },
      { key: bytes('x'), delete: [name('n')], add: [{ ...name('n'), by: 1n }] },
      { key: bytes('x'), put: [cell(7, 'n', '1')] },
    ];
    for (const mutation of refused) {
      const error = await client.mutate(table, mutation).catch((e: unknown) => e);
      expect(error).to.be.instanceOf(TypeError);
    }
  });

  const GUARDS: [string, Guard, boolean][] = [
    ['absent, of a cell that is', { op: 'absent', ...name('none') }, true],
    ['absent, of one that is there', { op: 'absent', ...name('a') }, false],
    ['equals', { op: 'equals', ...name('a'), value: bytes('1') }, true],
    ['equals, of a longer value', { op: 'equals', ...name('a'), value: bytes('11') }, false],
    ['equals, of an absent cell', { op: 'equals', ...name('none'), value: bytes('1') }, false],
    ['equals an empty value', { op: 'equals', ...name('empty'), value: bytes('') }, true],
    ['equals an empty value, of an absent cell', { op: 'equals', ...name('none'), value: bytes('') }, false],
    ['counterEquals', { op: 'counterEquals', ...name('n'), value: 7n }, true],
    ['counterEquals, of another number', { op: 'counterEquals', ...name('n'), value: -7n }, false],
    ['counterEquals 0, of no cell', { op: 'counterEquals', ...name('none'), value: 0n }, true],
    ['counterEquals 0, of a zero', { op: 'counterEquals', ...name('n0'), value: 0n }, true],
    ['counterEquals 0, of another number', { op: 'counterEquals', ...name('n'), value: 0n }, false],
    ['of another family', { op: 'absent', ...name('a', 1) }, true],
    ['of binary bytes', { op: 'equals', family: 2, qualifier: bytes('\0\xff,'), value: bytes('\0\xff') }, true],
  ];

  const guarded = () =>
    put(
      'guards',
      ...[cell(0, 'a', '1'), cell(0, 'empty', ''), cell(2, '\0\xff,', '\0\xff')],
      ...[cell(0, 'n', counterBytes(7n).toString('latin1')), cell(0, 'n0', counterBytes(0n).toString('latin1'))],
    );

  it('every guard alone, with a change and without', async () => {
    await guarded();
    for (const [what, guard, holds] of GUARDS) {
      const step = { key: bytes('guards'), guards: [guard] };
      expect(await client.mutate(table, step), `${what}, alone`).to.equal(holds);
      expect(await client.mutate(table, { ...step, put: [cell(1, 'done', what)] }), what).to.equal(holds);
      expect(
        cellValue((await client.get(table, bytes('guards')))!, 1, bytes('done'))?.equals(bytes(what)) ?? false,
        what,
      ).to.equal(holds);
    }
  });

  it('every two guards together', async () => {
    await guarded();
    for (const [what, guard, holds] of GUARDS) {
      for (const [other, second, alsoHolds] of GUARDS) {
        const mutation = { key: bytes('guards'), guards: [guard, second], put: [cell(1, 'done', what)] };
        expect(await client.mutate(table, mutation), `${what} and ${other}`).to.equal(holds && alsoHolds);
      }
    }
  });

  it('on a row that is not there: one guard', async () => {
    const held: [Guard, boolean][] = [
      [{ op: 'counterEquals', ...name('n'), value: 0n }, true],
      [{ op: 'absent', ...name('id') }, true],
      [{ op: 'equals', ...name('id'), value: bytes('') }, false],
      [{ op: 'counterEquals', ...name('n'), value: 1n }, false],
    ];
    for (const [i, [guard, holds]] of held.entries()) {
      const key = bytes(`absent${i}`);
      expect(await client.mutate(table, { key, guards: [guard], put: [cell(0, 'id', '1')] }), String(i)).to.equal(
        holds,
      );
      expect((await client.get(table, key)) !== undefined, String(i)).to.equal(holds);
    }
  });

  it('of many racers for one cell one wins', async () => {
    const others = Array.from({ length: 4 }, () => cluster.client());
    for (const key of ['race-a', 'zrace-b']) {
      const racers = Array.from({ length: 60 }, (_, i) =>
        others[i % 4]!.mutate(table, {
          key: bytes(key),
          guards: [{ op: 'absent', ...name('id') }],
          put: [cell(0, 'id', String(i)), cell(1, 'also', String(i))],
          add: [{ ...name('n'), by: 1n }],
        }),
      );
      const results = await Promise.all(racers);
      const winner = results.indexOf(true);
      expect(results.filter(Boolean)).to.have.length(1);
      expect(await row(key)).to.equal(`0:id=${winner} 0:n=1 1:also=${winner}`);
    }
  });

  it('a counter that is the guard of its own change counts every change once', async () => {
    const key = bytes('version');
    const others = [cluster.client(), cluster.client()];
    let done = 0;
    await Promise.all(
      Array.from({ length: 8 }, async (_, who) => {
        const own = others[who % 2]!;
        for (let n = 0; n < 6; ) {
          const value = cellCounter(await own.get(table, key), 0, bytes('n'));
          const guards: Guard[] = [{ op: 'counterEquals', ...name('n'), value }];
          if (!(await own.mutate(table, { key, guards, add: [{ ...name('n'), by: 1n }] }))) continue;
          n++;
          done++;
        }
      }),
    );
    expect(await row('version')).to.equal(`0:n=${done}`);
  });

  it('increment answers with the new values, in the order asked', async () => {
    const key = bytes('counts');
    const add = [
      { ...name('nb', 2), by: 10n },
      { ...name('na'), by: -1n },
    ];
    expect(await client.increment(table, key, add)).to.deep.equal([10n, -1n]);
    expect(await client.increment(table, key, add)).to.deep.equal([20n, -2n]);
    expect(await client.increment(table, key, [{ ...name('na'), by: 2n ** 62n }])).to.deep.equal([2n ** 62n - 2n]);
    expect(await client.increment(table, key, [])).to.deep.equal([]);
    const values = await Promise.all(
      Array.from({ length: 50 }, () => client.increment(table, key, [{ ...name('nc'), by: 1n }])),
    );
    expect(values.map(([value]) => Number(value)).sort((a, b) => a - b)).to.deep.equal(
      Array.from({ length: 50 }, (_, i) => i + 1),
    );
  });

  it('adding to what is no counter is corrupt, and changes nothing', async () => {
    await put('text', cell(0, 'a', 'text'), cell(0, 'n', counterBytes(1n).toString('latin1')));
    const key = bytes('text');
    expect(await codeOf(client.increment(table, key, [{ ...name('a'), by: 1n }]))).to.equal('corrupt');
    const add = [
      { ...name('a'), by: 1n },
      { ...name('n'), by: 1n },
    ];
    const error = await errorOf(client.mutate(table, { key, put: [cell(1, 'b', '1')], add }));
    expect(error).to.include({ code: 'corrupt', applied: 'no' });
    expect(await row('text')).to.equal('0:a=text 0:n=1');
  });

  it('many rows at once, of both regions, gathered into few requests', async () => {
    const before = client.statistics.calls.Multi!;
    const rows = Array.from({ length: 2_000 }, (_, i) => ({
      key: bytes(`${i % 2 ? 'a' : 'z'}many${i}`),
      put: [cell(0, 'i', String(i))],
    }));
    await client.putMany(table, rows);
    expect(client.statistics.calls.Multi! - before).to.be.at.most(40);
    const read = await client.getMany(
      table,
      rows.map((one) => one.key),
    );
    expect(read.every((found, i) => found?.equals(packRow(rows[i]!.put)))).to.equal(true);
    await client.putMany(
      table,
      rows.map((one, i) =>
        i % 3 === 0
          ? { key: one.key, deleteRow: true }
          : { key: one.key, delete: [name('i')], put: [cell(1, 'j', '')] },
      ),
    );
    const left = await client.getMany(
      table,
      rows.map((one) => one.key),
    );
    expect(
      left.every((found, i) => (i % 3 === 0 ? found === undefined : found?.equals(packRow([cell(1, 'j', '')])))),
    ).to.equal(true);
  });

  it('what cannot be done is named, and the rest of the batch is done', async () => {
    const wrong = { name: table.name, families: ['0', '1', 'nosuch'] };
    const rows = [
      { key: bytes('good'), put: [cell(0, 'a', '1')] },
      { key: bytes('wrong'), put: [cell(2, 'a', '1')] },
    ];
    expect(await errorOf(client.putMany(wrong, rows))).to.include({ code: 'conflict', applied: 'no' });
    expect(await row('good')).to.equal('0:a=1');
    const nowhere = { name: 'nosuchtable', families: ['0'] };
    expect(await codeOf(client.mutate(nowhere, { key: bytes('k'), put: [cell(0, 'a', '1')] }))).to.equal('noTable');
    expect(await codeOf(client.increment(nowhere, bytes('k'), [{ ...name('n'), by: 1n }]))).to.equal('noTable');
  });
});
