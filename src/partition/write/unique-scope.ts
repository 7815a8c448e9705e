import { MAX_RDNS } from '../../schema/dn.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Reader, RowStep } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import type { Node } from '../model/node.js';
import { cutNorm, MASTER, MASTER_TABLE, normRdnOf, parentIdOf, Q, ROOT_ID } from '../model/tables.js';
import type { Unique } from '../model/value-rules.js';
import { suffixAt } from '../tree/nodes.js';

const MAX_DEPTH = 2 * MAX_RDNS;

/** Normalized RDNs as tree keys have them, from the suffix down. */
type Path = readonly Buffer[];

/** An entry that gets another place, as the plan at hand has it. */
export interface Moving {
  readonly id: Buffer;
  /** Undefined: it goes. */
  readonly to: Node | undefined;
}

/** Where an entry stands, by rows that are read now: what nodes remember may be older than a guard. */
export interface Standing {
  /** Undefined: it, or an entry above it, is not there. */
  readonly path: Path | undefined;
  /** Steps by which a plan holds only while it stands there. */
  readonly guards: readonly RowStep[];
}

/** The place of an entry, behind the plan that moves `moving`. */
export async function standingOf(reader: Reader, id: Buffer, moving: Moving): Promise<Standing> {
  const path: Buffer[] = [];
  const guards: RowStep[] = [];
  let at = id;
  while (!at.equals(ROOT_ID)) {
    const known = at.equals(moving.id) ? moving.to : undefined;
    if (known) {
      path.push(known.normRdn);
      at = known.parent!.id;
      continue;
    }
    const read = reader.getHead(MASTER_TABLE.name, at, true);
    const row = isPromise(read) ? await read : read;
    // Nothing stands so deep: above a damaged entry there may be a circle.
    if (!row || path.length > MAX_DEPTH) return { path: undefined, guards: [] };
    const [normRdn, parentId] = [Buffer.from(normRdnOf(row)), Buffer.from(parentIdOf(row))];
    guards.push(placeGuard(at, normRdn, parentId));
    path.push(normRdn);
    at = parentId;
  }
  return { path: path.reverse(), guards };
}

function placeGuard(key: Buffer, normRdn: Buffer, parentId: Buffer): RowStep {
  const equals = (qualifier: Buffer, value: Buffer) =>
    ({ op: 'equals', family: MASTER.treeInfo, qualifier, value }) as const;
  return { table: MASTER_TABLE.name, key, guards: [equals(Q.normRdn, normRdn), equals(Q.parentId, parentId)] };
}

export function pathOf(node: Node): Path {
  const path: Buffer[] = [];
  for (let n: Node | undefined = node; n?.parent; n = n.parent) path.push(n.normRdn);
  return path.reverse();
}

/** The path of a name; undefined where no suffix has it. */
export function pathOfDn(dn: Dn, suffixes: readonly Dn[]): Path | undefined {
  const top = suffixAt(dn, suffixes);
  if (top < 0) return undefined;
  const suffix = suffixes.find(
    ({ rdns }, i) => rdns.length === dn.rdns.length - top && suffixAt(dn, [suffixes[i]!]) >= 0,
  )!;
  const below = dn.rdns.slice(0, top).map(({ norm }) => cutNorm(norm));
  return [cutNorm(suffix.norm), ...below.reverse()];
}

export function isAtOrBelow(path: Path, top: Path): boolean {
  return path.length >= top.length && top.every((norm, i) => norm.equals(path[i]!));
}

/** Whether entries with this place are in the subtree of the constraint. */
export function isInScope({ subtree }: Unique, path: Path | undefined, suffixes: readonly Dn[]): boolean {
  if (!path) return false;
  if (!subtree) return true;
  const top = pathOfDn(subtree, suffixes);
  return top !== undefined && isAtOrBelow(path, top);
}

/** Whether entries get in or out of the subtree of the constraint when one, with all below it, gets another place. */
export function crosses({ subtree }: Unique, from: Node, to: Node, suffixes: readonly Dn[]): boolean {
  const top = subtree && pathOfDn(subtree, suffixes);
  if (!top) return false;
  const [before, after] = [pathOf(from), pathOf(to)];
  if (isSamePath(before, after)) return false;
  const [were, are] = [isAtOrBelow(before, top), isAtOrBelow(after, top)];
  return were !== are || isAtOrBelow(top, before) !== isAtOrBelow(top, after);
}

function isSamePath(a: Path, b: Path): boolean {
  return a.length === b.length && isAtOrBelow(a, b);
}
