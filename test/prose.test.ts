import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../', import.meta.url));
const COLUMNS = 120;
const COMMENT = /^\s*(?:\/\/|\/?\*)/;
/** Words that say nothing without another sentence. Of the words of comments in `src`, in percent. */
const PRONOUN =
  /^(?:it|they|them|those|these|who|whom|whose|whoever|what|whatever|whichever|ones?|others|so|such|he|she|somebody|nobody)$/i;
const MOST_PRONOUNS = 3;
const MOST_WORDS = 40;
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

/** The comments of a source file, each as one text, without tables and indented code. */
function comments(file: string): string[] {
  const found: string[] = [];
  let isOpen = false;
  for (const line of readFileSync(join(root, file), 'utf8').split('\n')) {
    const text = /^\s*(?:\/\/|\/?\*+\/?)(.*?)(?:\*\/)?\s*$/.exec(line)?.[1]?.replace(/^(?: *\|| {3}).*/, '');
    if (text !== undefined && isOpen && !/^\s*\/\*/.test(line)) found[found.length - 1] += ` ${text}`;
    else if (text !== undefined) found.push(text);
    isOpen = text !== undefined && !/\*\/\s*$/.test(line);
  }
  return found;
}

/** The words of each sentence of a comment. Code in backticks counts as one word. */
function sentences(comment: string): string[][] {
  const parts = comment.replace(/`[^`]*`/g, 'X').split(/(?<=[.!?:;])\s+/);
  return parts.map((part) => part.match(/[A-Za-z][A-Za-z'-]*/g) ?? []);
}

describe('prose', () => {
  const source = files('src', /\.ts$/);

  it(`comments in src have at most ${MOST_PRONOUNS} % pronouns`, () => {
    const words = source.flatMap((file) => comments(file).flatMap(sentences)).flat();
    expect(words.length).to.be.greaterThan(10_000);
    const share = (100 * words.filter((word) => PRONOUN.test(word)).length) / words.length;
    expect(share).to.be.at.most(MOST_PRONOUNS);
  });

  it(`sentences of comments in src have at most ${MOST_WORDS} words`, () => {
    const isLong = (comment: string) => sentences(comment).some(({ length }) => length > MOST_WORDS);
    expect(source.flatMap((file) => comments(file).filter(isLong))).to.deep.equal([]);
  });

  it(`comments have lines of at most ${COLUMNS} columns`, () => {
    const sources = ['src', 'test', 'scripts'].flatMap((folder) => files(folder, /\.(?:ts|mjs|cjs|c)$/));
    expect(sources.length).to.be.greaterThan(500);
    expect(sources.flatMap((file) => tooLong(file, (line) => COMMENT.test(line)))).to.deep.equal([]);
  });

  it(`pages have lines of at most ${COLUMNS} columns`, () => {
    const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...files('docs', /\.md$/)];
    expect(pages.flatMap((file) => tooLong(file, proseOfPage()))).to.deep.equal([]);
  });
});
