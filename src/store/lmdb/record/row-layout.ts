import type { RowLayout } from '../../contract.js';

/** Rows with more cells than this have no layout. */
export const LAYOUT_CELLS = 512;

/** The `RowLayout` that the decoder writes. */
export class DecodedLayout implements RowLayout {
  row: Buffer | undefined;
  cellCount = 0;
  readonly cellStarts = new Int32Array(LAYOUT_CELLS);
  readonly nameNumbers = new Int32Array(LAYOUT_CELLS);
  numbering = {};
}
