/** The place of an entry in the tree: the data needed to name the entry and to find its children. */
export interface Node {
  readonly id: Buffer;
  readonly parent: Node | undefined;
  /** As stored in the row (cut). */
  readonly normRdn: Buffer;
  /** DN as the client wrote it, UTF-8. */
  readonly dn: Buffer;
}
