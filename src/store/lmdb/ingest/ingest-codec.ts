import type { Guard, LoadTable, Plan, PlanStep } from '../../contract.js';
import { PackedRows } from '../../load.js';

/** The rows of one table in a message to the ingest thread, which takes over their memory. */
export interface PackedTable {
  readonly table: string;
  readonly mustBeNew: boolean;
  readonly isAppend: boolean;
  readonly bytes: ArrayBuffer;
  readonly offsets: Uint32Array;
}

export function packedRows(rows: LoadTable['rows']): PackedRows {
  return rows instanceof PackedRows ? rows : PackedRows.of(rows);
}

export function packTable({ table, absent, append }: LoadTable, { bytes, offsets }: PackedRows): PackedTable {
  return { table, mustBeNew: absent ?? false, isAppend: append ?? false, bytes: bytes.buffer as ArrayBuffer, offsets };
}

export function unpackTable({ bytes, offsets }: PackedTable): PackedRows {
  return new PackedRows(Buffer.from(bytes), offsets);
}

/** Restores the Buffers of a plan, which a message delivers as plain byte arrays. */
export function revivePlan(plan: Plan): Plan {
  return { steps: plan.steps.map((step) => revive(step) as PlanStep), decisive: plan.decisive };
}

function revive(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value as Record<string, Guard>).map(([name, field]) => [name, revive(field)]),
  );
}
