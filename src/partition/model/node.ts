/** An entry's place in the tree: what of it is needed to name and to find what is below. */
export interface Node {
  readonly id: Buffer;
  readonly parent: Node | undefined;
  /** As in the row (cut). */
  readonly normRdn: Buffer;
  /** DN as given, UTF-8. */
  readonly dn: Buffer;
}
