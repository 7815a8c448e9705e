import type { BeforeImage } from '../../src/partition/model/before-image.js';
import { valueQualifier } from '../../src/partition/model/entry-cells.js';
import { MASTER, Q, versionOf } from '../../src/partition/model/tables.js';
import { compareCells, counterBytes } from '../../src/store/row.js';
import { type Edit, editRow } from '../../src/store/row-edit.js';

/**
 * Returns the master row before a change of the kind `modify`, `rename` or (with the row in table `deleted`) `restore`.
 * Secret values stay as in `after`, and large values are pointers to chunks that may be gone.
 */
export function rowBefore(after: Buffer, { info, attributes }: BeforeImage): Buffer {
  const edits: Edit[] = [];
  for (const [name, value] of info)
    edits.push({ family: MASTER.treeInfo, qualifier: Buffer.from(name, 'latin1'), value });
  const version = counterBytes(versionOf(after) - 1n);
  edits.push({ family: MASTER.treeInfo, qualifier: Q.version, value: version });
  for (const { description, old, added } of attributes) {
    const cell = (index: number, value: Buffer | undefined): Edit => ({
      family: MASTER.upAttributes,
      qualifier: valueQualifier(description, index),
      value,
    });
    for (const { index, bytes } of old) edits.push(cell(index, bytes));
    for (const index of added) edits.push(cell(index, undefined));
  }
  return editRow(after, edits.sort(compareCells)) ?? Buffer.alloc(0);
}
