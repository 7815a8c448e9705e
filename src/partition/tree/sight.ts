import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import { MASTER_TABLE } from '../model/tables.js';
import type { Viewer } from '../model/viewer.js';
import { findEntry } from './locate.js';
import { ROOT } from './nodes.js';
import type { TreeContext } from './tree-context.js';

/** Whether the viewer sees the entry. `row` returns the master row; called only if the answer depends on it. */
export function isVisible({ sees, sightOf }: Viewer, node: Node, row: () => Maybe<Buffer | undefined>): Maybe<boolean> {
  if (!sightOf || node === ROOT) return true;
  const isSeen = sees?.(node);
  if (isSeen !== undefined) return isSeen;
  return chain(
    row(),
    (r) => r !== undefined && sightOf({ id: node.id, parent: node.parent ?? ROOT, row: r }) !== undefined,
  );
}

/** Thrown for an existing entry that is hidden. `errorAsSeen` turns it into the error for a missing entry. */
export class HiddenEntry extends LdapError {
  readonly node: Node;

  constructor(node: Node) {
    super('noSuchObject', NO_ENTRY);
    this.node = node;
  }
}

/** Returns the error that the viewer gets: matchedDN must be a visible entry, and hidden entries look missing. */
export async function errorAsSeen(
  context: TreeContext,
  reader: Reader,
  viewer: Viewer,
  error: unknown,
): Promise<unknown> {
  if (!viewer.sightOf || !(error instanceof LdapError)) return error;
  if (error instanceof HiddenEntry) return hiddenError(context, reader, viewer, error.node);
  const { result, message, matchedDN } = error;
  const visibleDN = matchedDN && (await deepestVisible(context, reader, viewer, matchedDN));
  // Any further detail would distinguish a hidden entry from a missing one.
  if (result === 'noSuchObject') return new LdapError(result, NO_ENTRY, { matchedDN: visibleDN, cause: error });
  if (visibleDN === matchedDN) return error;
  if (result === 'referral') return new LdapError('noSuchObject', NO_ENTRY, { matchedDN: visibleDN, cause: error });
  return new LdapError(result, message, { matchedDN: visibleDN, cause: error });
}

/** Message for an entry that is missing or hidden from the viewer. */
const NO_ENTRY = 'there is no entry with this name';

async function hiddenError(context: TreeContext, reader: Reader, viewer: Viewer, node: Node): Promise<LdapError> {
  const matchedDN = node.parent ? await deepestVisible(context, reader, viewer, node.parent.dn.toString()) : '';
  return new LdapError('noSuchObject', NO_ENTRY, { matchedDN });
}

/** Returns the DN of the deepest entry at or above `dn` that the viewer sees; '' if there is none. */
async function deepestVisible(context: TreeContext, reader: Reader, viewer: Viewer, dn: string): Promise<string> {
  const entry = findEntry(context, reader, context.schema.parseDn(dn));
  let node: Node | undefined = (isPromise(entry) ? await entry : entry)?.node;
  for (; node && node !== ROOT; node = node.parent) {
    const { id } = node;
    const isSeen = isVisible(viewer, node, () => reader.get(MASTER_TABLE.name, id));
    if (isPromise(isSeen) ? await isSeen : isSeen) return node.dn.toString();
  }
  return '';
}
