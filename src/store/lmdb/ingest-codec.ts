import type { Guard, LoadRow, LoadTable, Plan, PlanStep } from '../contract.js';

/**
 * How a bulk batch travels to the thread that writes it: of each table one buffer, whose memory is handed over.
 * A row is three lengths (u32, big-endian: key, row, separate cells) and the bytes of the three.
 */
export interface PackedTable {
  readonly table: string;
  readonly absent: boolean;
  readonly append: boolean;
  readonly bytes: Uint8Array;
}

const HEADER = 12;

export function packTable({ table, rows, absent, append }: LoadTable): PackedTable {
  let length = 0;
  for (const { key, row, separate } of rows) length += HEADER + key.length + row.length + (separate?.length ?? 0);
  // Not from Node's pool: the memory goes to the other thread.
  const bytes = Buffer.from(new ArrayBuffer(length));
  let at = 0;
  for (const { key, row, separate } of rows) {
    bytes.writeUInt32BE(key.length, at);
    bytes.writeUInt32BE(row.length, at + 4);
    bytes.writeUInt32BE(separate?.length ?? 0, at + 8);
    at += HEADER;
    for (const part of [key, row, separate]) {
      if (!part) continue;
      bytes.set(part, at);
      at += part.length;
    }
  }
  return { table, absent: absent ?? false, append: append ?? false, bytes };
}

export function* unpackTable({ bytes }: PackedTable): Generator<LoadRow> {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < all.length; ) {
    const key = at + HEADER;
    const row = key + all.readUInt32BE(at);
    const separate = row + all.readUInt32BE(at + 4);
    const end = separate + all.readUInt32BE(at + 8);
    yield {
      key: all.subarray(key, row),
      row: all.subarray(row, separate),
      separate: separate < end ? all.subarray(separate, end) : undefined,
    };
    at = end;
  }
}

/** A message brings buffers as plain byte arrays; the plan is small, so they are wrapped again. */
export function revivePlan(plan: Plan): Plan {
  return { steps: plan.steps.map((step) => revive(step) as PlanStep), decisive: plan.decisive };
}

function revive(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (Array.isArray(value)) return value.map(revive);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value as Record<string, Guard>).map(([name, part]) => [name, revive(part)]));
}
