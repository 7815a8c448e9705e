import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { OutputStream } from '../../src/cli/export/output.js';
import { readUntilMark } from './rowan.js';
import { MARK } from './runner.js';

describe('cli: the process that runs many commands', () => {
  it('output is read until the mark, and what follows in the same chunk belongs to the next command', async () => {
    const stream = new PassThrough();
    const first = readUntilMark(stream);
    stream.write(`of the fir`);
    stream.write(`st${MARK}(node:1) a warning\n`);
    expect(await first).to.equal('of the first');
    const second = readUntilMark(stream);
    stream.write(`of the second${MARK}`);
    expect(await second).to.equal('(node:1) a warning\nof the second');
  });

  it('an export to standard output leaves no listener there', async () => {
    const { stdout } = process;
    const counts = (): number[] => ['error', 'drain'].map((event) => stdout.listenerCount(event));
    const before = counts();
    await new OutputStream(undefined).end();
    expect(counts()).to.deep.equal(before);
  });
});
