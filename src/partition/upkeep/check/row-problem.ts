import { checkRow } from '../../../store/row-edit.js';
import { StoreError } from '../../../store/store-error.js';

/** Why the bytes are no packed row; undefined where they are one. */
export function rowProblem(row: Buffer): string | undefined {
  try {
    checkRow(row);
    return undefined;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return error.message;
    throw error;
  }
}
