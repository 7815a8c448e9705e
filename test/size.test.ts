import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../src/', import.meta.url));

/**
 * Lines that `src` may have. A feature raises the number by what was planned for it, and no more: what does not fit is
 * made smaller elsewhere first. Longer lines, packed statements and fewer comments do not count as smaller.
 */
const MOST_LINES = 94_459;
/** Length of the list of the largest files. */
const LARGEST = 10;

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, number) => total + number, 0);
const table = (sizes: Iterable<[string, number]>): string =>
  [...sizes]
    .sort(([, a], [, b]) => b - a)
    .map(([name, lines]) => `${String(lines).padStart(6)}  ${name}\n`)
    .join('');

describe('the size of src', () => {
  it(`is at most ${MOST_LINES} lines`, () => {
    const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
    const files = new Map(names.map((name) => [name, readFileSync(join(root, name), 'utf8').split('\n').length - 1]));
    const rooms = new Map<string, number>();
    for (const [name, lines] of files) {
      const room = name.includes('/') ? name.slice(0, name.indexOf('/')) : '(top)';
      rooms.set(room, (rooms.get(room) ?? 0) + lines);
    }
    const total = sum(files.values());
    const largest = [...files].sort(([, a], [, b]) => b - a).slice(0, LARGEST);
    const text = `lines by room:\n${table(rooms)}the ${LARGEST} largest files:\n${table(largest)}`;
    process.stdout.write(`${text}${String(total).padStart(6)}  in all, of ${MOST_LINES}\n`);
    expect(rooms.size).to.be.greaterThan(10);
    expect(total, text).to.be.at.most(MOST_LINES);
  });
});
