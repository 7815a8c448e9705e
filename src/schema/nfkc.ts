/**
 * Converts text to NFKC (UAX #15) in linear time. The runtime's normalization sorts a run of combining marks by
 * insertion, in time quadratic in the length of the run. So long runs are put into canonical order first, which leaves
 * the runtime nothing to sort.
 */

/** Longer runs of combining marks than any script has: the Stream-Safe Text Format (UAX #15 §13) allows 30. */
const LONG_RUNS = /[\p{M}\uff9e\uff9f]{32,}/gu;
/** Texts of up to this number of characters are normalized without looking for long runs. */
const SHORT = 128;

/** A combining mark of each canonical combining class except 0, in the order of the classes. */
const CLASS_MARKS = [
  0x0334, 0x16ff0, 0x093c, 0x3099, 0x094d, 0x05b0, 0x05b1, 0x05b2, 0x05b3, 0x05b4, 0x05b5, 0x05b6, 0x05b7, 0x05b8,
  0x05b9, 0x05bb, 0x05bc, 0x05bd, 0x05bf, 0x05c1, 0x05c2, 0xfb1e, 0x064b, 0x064c, 0x064d, 0x0618, 0x0619, 0x061a,
  0x0651, 0x0652, 0x0670, 0x0711, 0x0c55, 0x0c56, 0x0e38, 0x0e48, 0x0eb8, 0x0ec8, 0x0f71, 0x0f72, 0x0f74, 0x0321,
  0x1dce, 0x031b, 0x1dfa, 0x0316, 0x059a, 0x302e, 0x1d16d, 0x05ae, 0x0300, 0x0315, 0x035c, 0x035d, 0x0345,
].map((code) => String.fromCodePoint(code));

interface Mark {
  readonly text: string;
  /** Index of the mark's combining class in the order of the classes; 0 for class 0. */
  readonly rank: number;
}

/** Decompositions of combining marks by mark. Unicode has some thousand marks, which bounds the map. */
const decompositions = new Map<string, readonly Mark[]>();

export function nfkc(text: string): string {
  const isShort = text.length <= SHORT;
  return (isShort ? text : text.replace(LONG_RUNS, orderMarks)).normalize('NFKC');
}

/** Decomposes a run of combining marks and puts it into canonical order. */
function orderMarks(run: string): string {
  const sortedTexts: string[] = [];
  let marks: Mark[] = [];
  for (const char of run) {
    for (const mark of decompose(char)) {
      if (mark.rank === 0) {
        sortedTexts.push(sortMarks(marks), mark.text);
        marks = [];
      } else marks.push(mark);
    }
  }
  sortedTexts.push(sortMarks(marks));
  return sortedTexts.join('');
}

function sortMarks(marks: Mark[]): string {
  marks.sort((a, b) => a.rank - b.rank);
  let text = '';
  for (const mark of marks) text += mark.text;
  return text;
}

function decompose(char: string): readonly Mark[] {
  let marks = decompositions.get(char);
  if (!marks) {
    marks = [...char.normalize('NFKD')].map((text) => ({ text, rank: combiningRank(text) }));
    decompositions.set(char, marks);
  }
  return marks;
}

/** Returns the rank of a mark, found by the runtime's reordering of the mark next to each of `CLASS_MARKS`. */
function combiningRank(mark: string): number {
  const isStarter = !sortsAfter(mark, CLASS_MARKS[0]!) && !sortsAfter(CLASS_MARKS.at(-1)!, mark);
  if (isStarter) return 0;
  let low = 0;
  let high = CLASS_MARKS.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sortsAfter(mark, CLASS_MARKS[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low + 1;
}

/** Whether the canonical order puts `a` after `b`. */
function sortsAfter(a: string, b: string): boolean {
  return (a + b).normalize('NFD') !== a + b;
}
