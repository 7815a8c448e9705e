import { CellCursor } from './cells.js';
import type { Failure } from './failure.js';
import { type MessageReader, varintLength, writeVarint } from './protobuf.js';
import type { Region } from './regions.js';
import { type Answer, readException } from './wire.js';

/** A read or change of a row, as an element of a Multi request. */
export interface Action {
  /** Fields of the message Action: `get` 3 or `mutation` 2. Several fields make an atomic change. */
  readonly bodies: readonly Buffer[];
  readonly cells: readonly Buffer[];
  /** The bodies are applied all or none, under `condition` (a field of RegionAction) if given. */
  readonly isAtomic: boolean;
  readonly condition: Buffer | undefined;
  readonly region: Region;
  /** Receives the answer: `cellCount` cells to be read from the cursor. `isProcessed`: whether the condition held. */
  complete(cells: CellCursor, cellCount: number, isProcessed: boolean): void;
  fail(failure: Failure): void;
}

/**
 * MultiRequest: region_action 1. RegionAction: region 1, atomic 2, action 3, condition 4. Action: index 1, mutation 2,
 * get 3.
 */
const REGION_ACTION_TAG = 0x0a;
const REGION_TAG = 0x0a;
const ATOMIC_TAG = 0x10;
const ACTION_TAG = 0x1a;
const INDEX_TAG = 0x08;

/** The actions of a RegionAction, in order. */
export type ActionGroup = readonly Action[];

/** Groups the plain actions by region. Each atomic action is a group of its own. */
export function groupActions(actions: readonly Action[]): ActionGroup[] {
  const groups: ActionGroup[] = [];
  const plainGroups = new Map<Region, Action[]>();
  for (const action of actions) {
    if (action.isAtomic) {
      groups.push([action]);
      continue;
    }
    const actionGroup = plainGroups.get(action.region);
    if (actionGroup) actionGroup.push(action);
    else {
      const newGroup = [action];
      plainGroups.set(action.region, newGroup);
      groups.push(newGroup);
    }
  }
  return groups;
}

export function encodeMulti(groups: readonly ActionGroup[]): Buffer {
  const groupLengths = groups.map(groupLength);
  let totalLength = 0;
  for (const length of groupLengths) totalLength += fieldLength(length);
  const out = Buffer.allocUnsafe(totalLength);
  let offset = 0;
  for (let i = 0; i < groups.length; i++) {
    out[offset++] = REGION_ACTION_TAG;
    offset = writeVarint(out, offset, groupLengths[i]!);
    offset = writeGroup(out, offset, groups[i]!);
  }
  return out;
}

function fieldLength(length: number): number {
  return 1 + varintLength(length) + length;
}

function groupLength(actionGroup: ActionGroup): number {
  const firstAction = actionGroup[0]!;
  let length =
    fieldLength(firstAction.region.specifier.length) +
    (firstAction.isAtomic ? 2 : 0) +
    (firstAction.condition?.length ?? 0);
  let index = 0;
  for (const action of actionGroup) {
    for (const body of action.bodies) length += fieldLength(1 + varintLength(index++) + body.length);
  }
  return length;
}

function writeGroup(out: Buffer, start: number, actionGroup: ActionGroup): number {
  const { region, isAtomic, condition } = actionGroup[0]!;
  let offset = start;
  out[offset++] = REGION_TAG;
  offset = writeVarint(out, offset, region.specifier.length);
  out.set(region.specifier, offset);
  offset += region.specifier.length;
  if (isAtomic) {
    out[offset++] = ATOMIC_TAG;
    out[offset++] = 1;
  }
  let index = 0;
  for (const action of actionGroup) {
    for (const body of action.bodies) {
      out[offset++] = ACTION_TAG;
      offset = writeVarint(out, offset, 1 + varintLength(index) + body.length);
      out[offset++] = INDEX_TAG;
      offset = writeVarint(out, offset, index++);
      out.set(body, offset);
      offset += body.length;
    }
  }
  if (condition) {
    out.set(condition, offset);
    offset += condition.length;
  }
  return offset;
}

/**
 * Passes each action its result in the answer. MultiResponse: region_action_result 1 { result_or_exception 1, exception
 * 2, processed 3 }, in request order; ResultOrException: index 1, result 2 { associated_cell_count 2 }, exception 3.
 */
export function completeMulti(server: string, groups: readonly ActionGroup[], { message, cells }: Answer): void {
  const cursor = new CellCursor(cells);
  let groupIndex = 0;
  while (message.next()) {
    if (message.field !== 1 || groupIndex >= groups.length) message.skip();
    else completeGroup(server, groups[groupIndex++]!, message.message(), cursor);
  }
}

function completeGroup(server: string, actionGroup: ActionGroup, result: MessageReader, cursor: CellCursor): void {
  const firstAction = actionGroup[0]!;
  let isProcessed = true;
  let failure: Failure | undefined;
  while (result.next()) {
    if (result.field === 1) {
      const actionResult = result.message();
      if (!firstAction.isAtomic) completeAction(server, actionGroup, actionResult, cursor);
    } else if (result.field === 2) failure = readException(result.message(), server);
    else if (result.field === 3) isProcessed = result.bool();
    else result.skip();
  }
  if (failure) for (const action of actionGroup) action.fail(failure);
  else if (firstAction.isAtomic) firstAction.complete(cursor, 0, isProcessed);
}

function completeAction(server: string, actionGroup: ActionGroup, result: MessageReader, cursor: CellCursor): void {
  let index = 0;
  let count = 0;
  let failure: Failure | undefined;
  while (result.next()) {
    if (result.field === 1) index = result.uint();
    else if (result.field === 2) count = readCellCount(result.message());
    else if (result.field === 3) failure = readException(result.message(), server);
    else result.skip();
  }
  const action = actionGroup[index];
  if (!action) return;
  if (failure) action.fail(failure);
  else action.complete(cursor, count, true);
}

/** Reads a Result: associated_cell_count 2. */
function readCellCount(result: MessageReader): number {
  let count = 0;
  while (result.nextField(2)) count = result.uint();
  return count;
}
