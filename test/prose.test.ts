import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../', import.meta.url));
const COLUMNS = 120;
const COMMENT = /^\s*(?:\/\/|\/?\*)/;
/** Lines that have no other place to break: tables, headings, quotations, images, indented code, a link alone. */
const UNBREAKABLE = /^(?:\||#|>|<|!\[| {4}|\s*\S+$)/;

function files(folder: string, ending: RegExp): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ending.test(name))
    .map((name) => join(folder, name));
}

/** `FILE:LINE` of the lines that are too long. */
function tooLong(file: string, isProse: (line: string) => boolean): string[] {
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  return lines.flatMap((line, i) => (isProse(line) && line.length > COLUMNS ? [`${file}:${i + 1}`] : []));
}

/** Whether a line of a page, asked in their order, is prose. */
function proseOfPage(): (line: string) => boolean {
  let fenced = false;
  return (line) => {
    if (line.startsWith('```')) fenced = !fenced;
    return !fenced && !UNBREAKABLE.test(line);
  };
}

describe('prose', () => {
  it(`of comments has lines of at most ${COLUMNS} columns`, () => {
    const sources = ['src', 'test', 'scripts'].flatMap((folder) => files(folder, /\.(?:ts|mjs|cjs|c)$/));
    expect(sources.length).to.be.greaterThan(500);
    expect(sources.flatMap((file) => tooLong(file, (line) => COMMENT.test(line)))).to.deep.equal([]);
  });

  it(`of pages has lines of at most ${COLUMNS} columns`, () => {
    const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...files('docs', /\.md$/)];
    expect(pages.flatMap((file) => tooLong(file, proseOfPage()))).to.deep.equal([]);
  });
});
