import { LdapError } from '../ldap/error.js';
import type { Maybe } from '../store/contract.js';
import { chain } from '../store/maybe.js';
import type { Area } from './area.js';
import { type Node, ROOT } from './nodes.js';
import type { SearchRun } from './search-run.js';
import { MASTER_TABLE } from './tables.js';

/** The base entry is not there any more. */
export class BaseGone extends LdapError {
  constructor() {
    super('noSuchObject', 'the entry at the base was deleted while it was searched');
  }
}

/** The scope `base`: looks at the one entry. Its row is not read again where finding the base brought it along. */
export function searchBase(run: SearchRun, { node, row }: Area): Maybe<void> {
  if (!row) return run.fetch(node.id);
  run.looked++;
  return run.considerHead(node.id, row, 'b', node.id);
}

/** Where nothing was found: throws `BaseGone` unless the base itself is still there. A cached node does not tell. */
export function requireBase(run: SearchRun, node: Node): Maybe<void> {
  if (node === ROOT) return;
  return chain(run.context.store.getHead(MASTER_TABLE.name, node.id, true), (row) => {
    if (!row) throw new BaseGone();
  });
}
