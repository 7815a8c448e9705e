import { hashBytes } from '../../model/hash.js';
import type { Node } from '../../model/node.js';
import { nodeTreeKey } from '../../tree/nodes.js';

/**
 * b: the base entry; i: by lists of an index, in the order of ids; r: by ranges of index keys; s: by scope; t: the
 * whole table.
 */
export type PlanKind = 'b' | 'i' | 'r' | 's' | 't';

/** Where a page ended: number of the area, kind of plan, key of the entry that it gave last. */
export interface Resume {
  readonly area: number;
  readonly kind: PlanKind;
  /**
   * `b`, `i`: entryUUID; `t`: key of the tree row, `s`: behind the `wayTo` its parent; `r`: place in the order of an
   * index (`page-search.ts`).
   */
  readonly key: Buffer;
}

export function formatResume({ area, kind, key }: Resume): Buffer {
  const head = Buffer.allocUnsafe(3);
  head.writeUInt16BE(area);
  head[2] = kind.charCodeAt(0);
  return Buffer.concat([head, key]);
}

export function parseResume(bytes: Buffer): Resume {
  return { area: bytes.readUInt16BE(0), kind: String.fromCharCode(bytes[2]!) as PlanKind, key: bytes.subarray(3) };
}

/** Bytes of a `wayTo`. */
export const WAY_BYTES = 4;

/** A mark of the path from the base (exclusive) down to a node. A move or rename of an entry on it changes the mark. */
export function wayTo(node: Node, base: Node): Buffer {
  let hash: number | undefined;
  for (let at: Node | undefined = node; at && !at.id.equals(base.id); at = at.parent)
    hash = hashBytes(nodeTreeKey(at), undefined, undefined, hashBytes(at.id, undefined, undefined, hash));
  const way = Buffer.alloc(WAY_BYTES);
  way.writeInt32BE(hash ?? 0);
  return way;
}
