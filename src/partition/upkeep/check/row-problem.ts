import { checkRow } from '../../../store/row-edit.js';
import { StoreError } from '../../../store/store-error.js';

/** Returns the reason why the bytes are not a valid packed row; undefined if they are. */
export function rowProblem(row: Buffer): string | undefined {
  try {
    checkRow(row);
    return undefined;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'corrupt') return error.message;
    throw error;
  }
}
