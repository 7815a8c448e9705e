import { hashBytes } from '../../model/descriptions.js';
import type { Node } from '../../model/tables.js';
import { nodeTreeKey } from '../../tree/nodes.js';

/**
 * The source of a search's candidates. `b`: the base entry; `i`: lists of an index, in the order of ids; `r`: key
 * ranges of indexes; `s`: a scan of the scope; `t`: a scan of the whole tree table.
 */
export type PlanKind = 'b' | 'i' | 'r' | 's' | 't';

/** The end of a page: number of the area, kind of plan, and key of the last entry. */
export interface Resume {
  readonly areaIndex: number;
  readonly kind: PlanKind;
  /**
   * `b`, `i`: entryUUID. `t`: key of the tree row. `s`: `pathHash` of the parent, then the key of the tree row.
   * `r`: position in the order of an index (`page-search.ts`).
   */
  readonly key: Buffer;
}

export function formatResume({ areaIndex, kind, key }: Resume): Buffer {
  const header = Buffer.allocUnsafe(3);
  header.writeUInt16BE(areaIndex);
  header[2] = kind.charCodeAt(0);
  return Buffer.concat([header, key]);
}

export function parseResume(bytes: Buffer): Resume {
  return { areaIndex: bytes.readUInt16BE(0), kind: String.fromCharCode(bytes[2]!) as PlanKind, key: bytes.subarray(3) };
}

export const PATH_HASH_BYTES = 4;

/** Returns a hash of the path from the base (exclusive) to a node. Changes with moves and renames on the path. */
export function pathHash(node: Node, base: Node): Buffer {
  let hash: number | undefined;
  for (let ancestor: Node | undefined = node; ancestor && !ancestor.id.equals(base.id); ancestor = ancestor.parent)
    hash = hashBytes(nodeTreeKey(ancestor), undefined, undefined, hashBytes(ancestor.id, undefined, undefined, hash));
  const bytes = Buffer.alloc(PATH_HASH_BYTES);
  bytes.writeInt32BE(hash ?? 0);
  return bytes;
}
