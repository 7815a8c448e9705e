const MAX_NAME = 64;

/** Rows of the edit distance table: the row before the last, the last and the current one. Reused by every call. */
let secondLastRow = new Uint8Array(MAX_NAME + 1);
let lastRow = new Uint8Array(MAX_NAME + 1);
let row = new Uint8Array(MAX_NAME + 1);

/** Returns the edits (insert, delete, replace, swap neighbours) from `a` to `b`; `limit + 1` if more than `limit`. */
function distance(a: string, b: string, limit: number): number {
  if (b.length > MAX_NAME || Math.abs(a.length - b.length) > limit) return limit + 1;
  for (let j = 0; j <= b.length; j++) lastRow[j] = j;
  for (let i = 1; i <= a.length; i++) {
    let leastDistance = i;
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const isEqual = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      let d = Math.min(lastRow[j]! + 1, row[j - 1]! + 1, lastRow[j - 1]! + (isEqual ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) d = Math.min(d, secondLastRow[j - 2]! + 1);
      row[j] = d;
      if (d < leastDistance) leastDistance = d;
    }
    if (leastDistance > limit) return limit + 1;
    [secondLastRow, lastRow, row] = [lastRow, row, secondLastRow];
  }
  return lastRow[b.length]!;
}

/** Returns the name most similar to `unknownName`, in any case; undefined if none can be a typing error. */
export function nearest(unknownName: string, names: Iterable<string>): string | undefined {
  if (unknownName.length > MAX_NAME) return undefined;
  const target = unknownName.toLowerCase();
  const limit = target.length < 4 ? 1 : target.length < 8 ? 2 : 3;
  let best: string | undefined;
  let leastDistance = limit + 1;
  for (const name of names) {
    const d = distance(target, name.toLowerCase(), Math.min(limit, leastDistance));
    if (d < leastDistance) {
      leastDistance = d;
      best = name;
    }
  }
  return best;
}

/** Returns `; did you mean 'x'?`, or an empty text if there is no similar name. */
export function didYouMean(unknownName: string, names: Iterable<string>): string {
  const nearestName = nearest(unknownName, names);
  return nearestName === undefined ? '' : `; did you mean '${nearestName}'?`;
}

/** Returns the message for an unknown attribute, with the most similar of `names` and a remedy. */
export function unknownAttribute(unknownName: string, names: Iterable<string>): string {
  const hint = didYouMean(unknownName, names);
  return `attribute '${printable(unknownName)}' is not in the schema${hint || ';'} "rowan schema set" defines others`;
}

/** Prepares a text of a client for a message: truncates it and replaces control characters. */
export function printable(text: string): string {
  const cut = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
