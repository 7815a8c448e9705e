import { MAX_RDNS } from '../../schema/dn.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Reader, RowStep } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { cutNorm, MASTER, MASTER_TABLE, type Node, normRdnOf, parentIdOf, Q, ROOT_ID } from '../model/tables.js';
import type { Constraint } from '../model/value-rules.js';
import { suffixRdnIndex } from '../tree/nodes.js';

const MAX_DEPTH = 2 * MAX_RDNS;

/** Normalized RDNs (cut), from the suffix down. */
type Path = readonly Buffer[];

/** The move of an entry by the plan that is being made. */
export interface PendingMove {
  readonly id: Buffer;
  /** Undefined for a deletion. */
  readonly to: Node | undefined;
}

/** The position of an entry by rows that were just read, since cached nodes may be outdated. */
export interface Position {
  /** Undefined if the entry or an ancestor does not exist. */
  readonly path: Path | undefined;
  /** Steps whose guards fail if the position changes. */
  readonly guards: readonly RowStep[];
}

/** Returns the position that an entry will have after the move in `moving`. */
export async function positionOf(reader: Reader, id: Buffer, moving: PendingMove): Promise<Position> {
  const path: Buffer[] = [];
  const guards: RowStep[] = [];
  let ancestorId = id;
  while (!ancestorId.equals(ROOT_ID)) {
    const movedTo = ancestorId.equals(moving.id) ? moving.to : undefined;
    if (movedTo) {
      path.push(movedTo.normRdn);
      ancestorId = movedTo.parent!.id;
      continue;
    }
    const maybeRow = reader.getHead(MASTER_TABLE.name, ancestorId, true);
    const row = isPromise(maybeRow) ? await maybeRow : maybeRow;
    // A longer chain of parents is a cycle, above a damaged entry.
    if (!row || path.length > MAX_DEPTH) return { path: undefined, guards: [] };
    const [normRdn, parentId] = [Buffer.from(normRdnOf(row)), Buffer.from(parentIdOf(row))];
    guards.push(placeGuard(ancestorId, normRdn, parentId));
    path.push(normRdn);
    ancestorId = parentId;
  }
  return { path: path.reverse(), guards };
}

function placeGuard(key: Buffer, normRdn: Buffer, parentId: Buffer): RowStep {
  const equals = (qualifier: Buffer, value: Buffer) =>
    ({ op: 'equals', family: MASTER.treeInfo, qualifier, value }) as const;
  return { table: MASTER_TABLE.name, key, guards: [equals(Q.normRdn, normRdn), equals(Q.parentId, parentId)] };
}

export function pathOfNode(node: Node): Path {
  const path: Buffer[] = [];
  for (let n: Node | undefined = node; n?.parent; n = n.parent) path.push(n.normRdn);
  return path.reverse();
}

/** Returns the path of a DN; undefined if it is below no suffix. */
export function pathOfDn(dn: Dn, suffixes: readonly Dn[]): Path | undefined {
  const suffixIndex = suffixRdnIndex(dn, suffixes);
  if (suffixIndex < 0) return undefined;
  const suffix = suffixes.find(
    ({ rdns }, i) => rdns.length === dn.rdns.length - suffixIndex && suffixRdnIndex(dn, [suffixes[i]!]) >= 0,
  )!;
  const lowerPath = dn.rdns.slice(0, suffixIndex).map(({ norm }) => cutNorm(norm));
  return [cutNorm(suffix.norm), ...lowerPath.reverse()];
}

export function isAtOrBelow(path: Path, top: Path): boolean {
  return path.length >= top.length && top.every((norm, i) => norm.equals(path[i]!));
}

export function isInScope({ subtree }: Constraint, path: Path | undefined, suffixes: readonly Dn[]): boolean {
  if (!path) return false;
  if (!subtree) return true;
  const top = pathOfDn(subtree, suffixes);
  return top !== undefined && isAtOrBelow(path, top);
}

/** Whether a move takes entries into or out of the constraint's subtree. */
export function crosses({ subtree }: Constraint, oldNode: Node, newNode: Node, suffixes: readonly Dn[]): boolean {
  const top = subtree && pathOfDn(subtree, suffixes);
  if (!top) return false;
  const [pathBefore, pathAfter] = [pathOfNode(oldNode), pathOfNode(newNode)];
  if (pathBefore.length === pathAfter.length && isAtOrBelow(pathBefore, pathAfter)) return false;
  const [wasInside, isInside] = [isAtOrBelow(pathBefore, top), isAtOrBelow(pathAfter, top)];
  return wasInside !== isInside || isAtOrBelow(top, pathBefore) !== isAtOrBelow(top, pathAfter);
}
