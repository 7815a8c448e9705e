import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { isBreached, Judge, JudgingFault, requireBreachedList, SlowWorkFull } from '../../src/password/index.js';
import { weaknessReason } from '../../src/password/quality/strength.js';

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex').toUpperCase();
const SOURCE = { network: 'net', identity: 'somebody' };

async function failure(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error('did not fail');
}

describe('password quality', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-quality-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  describe('breached passwords', () => {
    const known = Array.from({ length: 50_000 }, (_, n) => `password ${n}`);
    const file = () => join(folder, 'sorted.txt');
    before(() => {
      const lines = known.map((text, n) => `${sha1(text)}:${n * n}`).sort();
      writeFileSync(file(), `${lines.join('\r\n')}\r\n`);
    });

    it('are found in a sorted file, and others are not', async () => {
      await requireBreachedList(file());
      for (let n = 0; n < known.length; n += 97)
        expect(await isBreached(file(), Buffer.from(known[n]!))).to.equal(true);
      for (let n = 0; n < 500; n++) expect(await isBreached(file(), Buffer.from(`other ${n}`))).to.equal(false);
      const order = known.map(sha1).sort();
      const ends = known.filter((text) => [order[0], order.at(-1)].includes(sha1(text)));
      for (const text of ends) expect(await isBreached(file(), Buffer.from(text)), 'first and last').to.equal(true);
    });

    it('are looked up without reading more than some blocks', async () => {
      const handle = await open(file());
      const type = Object.getPrototypeOf(handle) as { read: (...args: unknown[]) => Promise<{ bytesRead: number }> };
      const { size } = await handle.stat();
      await handle.close();
      const { read } = type;
      let bytes = 0;
      type.read = async function (this: unknown, ...args: unknown[]) {
        const result = await read.apply(this, args);
        bytes += result.bytesRead;
        return result;
      };
      try {
        await isBreached(file(), Buffer.from(known[123]!));
      } finally {
        type.read = read;
      }
      expect(bytes)
        .to.be.above(0)
        .and.below(size / 50);
    });

    it('are found in a file of few lines, without a count, and without a last line end', async () => {
      const few = join(folder, 'few.txt');
      writeFileSync(few, ['a', 'b', 'c'].map(sha1).sort().join('\n'));
      for (const text of ['a', 'b', 'c']) expect(await isBreached(few, Buffer.from(text))).to.equal(true);
      expect(await isBreached(few, Buffer.from('d'))).to.equal(false);
      writeFileSync(few, '');
      expect(await isBreached(few, Buffer.from('a')), 'an empty file').to.equal(false);
    });

    it('are found in a folder of prefixes, with .txt and without', async () => {
      const own = mkdtempSync(join(folder, 'prefixes-'));
      expect((await failure(requireBreachedList(own))).message).to.match(/no file is named by five hex digits/);
      expect((await failure(isBreached(own, Buffer.from('a')))).message, 'not mounted').to.match(/five hex digits/);
      for (const [text, suffix] of [
        ['a', ''],
        ['b', '.txt'],
      ] as const)
        writeFileSync(join(own, sha1(text).slice(0, 5) + suffix), `${sha1(text).slice(5)}:3\r\n${'F'.repeat(35)}:1`);
      await requireBreachedList(own);
      for (const text of ['a', 'b']) expect(await isBreached(own, Buffer.from(text))).to.equal(true);
      expect(await isBreached(own, Buffer.from('c'))).to.equal(false);
    });

    it('a list that is none is a fault that names it, and no password', async () => {
      const wrong = join(folder, 'wrong.txt');
      writeFileSync(wrong, 'secret words\n'.repeat(10_000));
      for (const path of [wrong, join(folder, 'not there')]) {
        const { message } = await failure(isBreached(path, Buffer.from('a')));
        expect(message).to.include(path).and.not.include('secret');
        expect((await failure(requireBreachedList(path))).name).to.equal('BreachedListFault');
      }
      writeFileSync(wrong, 'x'.repeat(100_000));
      expect((await failure(isBreached(wrong, Buffer.from('a')))).message, 'no line at all').to.match(/a line is no/);
      writeFileSync(wrong, `${known.map((text) => sha1(text).slice(0, 32)).join('\n')}\n`);
      expect((await failure(requireBreachedList(wrong))).message, 'other hashes').to.match(/a line is no/);
    });
  });

  it('strength: what is weak is told why, and what is strong is taken', () => {
    expect(weaknessReason('correct horse battery staple', [], 4)).to.equal(undefined);
    expect(weaknessReason('x9#Tq!mZ2$pL', [], 4)).to.equal(undefined);
    for (const [text, reason] of [
      ['password', /most used/],
      ['aaaaaaaaaa', /repeats/],
      ['qwertyuiop', /most used|keys/],
      ['abcdefghijk', /sequence/],
      ['19.05.1998', /date/],
    ] as const)
      expect(weaknessReason(text, [], 3), text).to.match(reason);
    expect(weaknessReason('lovelace1815', ['Ada Lovelace'], 3)).to.match(/names of its entry/);
    expect(weaknessReason('password', [], 0)).to.equal(undefined);
  });

  describe('in a thread', () => {
    const job = { names: [], dn: 'uid=ada', minScore: 0, check: undefined };
    function module(name: string, text: string): string {
      const path = join(folder, name);
      writeFileSync(path, text);
      return pathToFileURL(path).href;
    }

    it('a password of 100 KB does not hold the event loop', async () => {
      const judge = new Judge();
      await judge.refusalReason({ ...job, clear: 'to start it', minScore: 1 }, SOURCE);
      for (const clear of ['a1!'.repeat(35_000), 'x'.repeat(100_000), '(('.repeat(50_000)]) {
        let turns = 0;
        let ended = false;
        const turn = (): void => {
          turns++;
          if (!ended) setImmediate(turn);
        };
        setImmediate(turn);
        await judge.refusalReason({ ...job, clear, minScore: 4 }, SOURCE);
        ended = true;
        expect(turns).to.be.above(5);
      }
    });

    it('the operator’s module says what is to be changed', async () => {
      const judge = new Judge();
      const check = module(
        'own.mjs',
        `export default async (password, { dn, names }) =>
           password === 'good' ? undefined : 'not for ' + dn + ' ' + names.join('/');`,
      );
      expect(await judge.refusalReason({ ...job, clear: 'good', check }, SOURCE)).to.equal(undefined);
      expect(await judge.refusalReason({ ...job, clear: 'bad', names: ['Ada', 'A. L.'], check }, SOURCE)).to.equal(
        'not for uid=ada Ada/A. L.',
      );
      expect(await judge.refusalReason({ ...job, clear: 'password', minScore: 2, check }, SOURCE)).to.match(/too easy/);
    });

    it('a module that does not end is broken off, and the next password is judged', async () => {
      const judge = new Judge(4000);
      for (const body of ['for (;;);', 'return new Promise(() => {});', 'process.exit(1);']) {
        const check = module('endless.mjs', `export default () => { ${body} }`);
        // Another name each time: a thread keeps the modules that it has read.
        const error = await failure(
          judge.refusalReason({ ...job, clear: 'x', check: `${check}?${body.length}` }, SOURCE),
        );
        expect(error).to.be.instanceOf(JudgingFault);
        expect(await judge.refusalReason({ ...job, clear: 'password', minScore: 1 }, SOURCE)).to.match(/too easy/);
      }
    });

    it('nothing that a module throws or says tells the password', async () => {
      const judge = new Judge();
      const clear = 'Tr0ub4dor and more';
      for (const [n, body] of [
        "throw new Error('no: ' + password);",
        "throw 'no: ' + password;",
        'throw Object.assign(new Error(password), { name: password, code: password });',
        'return { password };',
        'return 7;',
        'return false;',
      ].entries()) {
        const check = module(`throws${n}.mjs`, `export default (password) => { ${body} }`);
        const error = await failure(judge.refusalReason({ ...job, clear, check }, SOURCE));
        expect(error, body).to.be.instanceOf(JudgingFault);
        expect(error.stack).to.include(`throws${n}.mjs`).and.not.include(clear);
      }
      const check = module('echo.mjs', "export default (password) => 'do not take ' + password + '\\u0000\\n';");
      expect(await judge.refusalReason({ ...job, clear, check }, SOURCE)).to.match(/choose another/);
    });

    it('a module that is not there, or exports nothing, is a fault', async () => {
      const judge = new Judge();
      const missing = pathToFileURL(join(folder, 'missing.mjs')).href;
      for (const check of [missing, module('nothing.mjs', 'export const x = 1;'), module('syntax.mjs', 'export {{')])
        expect(await failure(judge.refusalReason({ ...job, clear: '', check }, SOURCE))).to.be.instanceOf(JudgingFault);
    });

    it('more than there is room for is refused', async () => {
      const judge = new Judge();
      const ends = await Promise.allSettled(
        Array.from({ length: 400 }, () => judge.refusalReason({ ...job, clear: 'x9#Tq!mZ2$pL', minScore: 4 }, SOURCE)),
      );
      const refused = ends.filter((end) => end.status === 'rejected');
      expect(refused.length).to.be.above(0);
      for (const end of refused) expect((end as PromiseRejectedResult).reason).to.be.instanceOf(SlowWorkFull);
      expect(ends.filter(({ status }) => status === 'fulfilled').length).to.be.above(100);
    });
  });
});
