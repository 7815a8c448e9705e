/** An entry's position in the tree: what is needed to name the entry and to find its children. */
export interface Node {
  readonly id: Buffer;
  readonly parent: Node | undefined;
  /** Normalized RDN (cut), as in the key of the tree row; for a suffix the whole DN. */
  readonly normRdn: Buffer;
  /** DN as the client wrote it, UTF-8. */
  readonly dn: Buffer;
}
