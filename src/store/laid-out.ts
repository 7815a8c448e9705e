/** Of longer rows nothing is told. */
export const LAID_OUT_CELLS = 512;

/**
 * Where the cells of the packed row lie that an engine decoded last: who reads that row next need not go from cell to
 * cell. It speaks of `row` alone, by identity; an engine that knows nothing leaves it as it is.
 */
export interface LaidOut {
  row: Buffer | undefined;
  /** Number of cells. */
  count: number;
  /** Cells with the same number above 0 have the same name, as long as `numbering` is the same object. */
  readonly names: Int32Array;
  numbering: object;
  /** Cell `n` is `row[begins[n], begins[n + 1])`, the last one ends with the row. */
  readonly begins: Int32Array;
}

export const laidOut: LaidOut = {
  row: undefined,
  count: 0,
  names: new Int32Array(LAID_OUT_CELLS),
  numbering: {},
  begins: new Int32Array(LAID_OUT_CELLS),
};
