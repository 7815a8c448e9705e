import type { MessageReader } from './protobuf.js';

export interface ScanResponse {
  readonly cellCounts: readonly number[];
  readonly partialFlags: readonly boolean[];
  readonly scannerId: bigint | undefined;
  readonly hasMore: boolean;
  readonly hasMoreInRegion: boolean;
  readonly isHeartbeat: boolean;
  readonly cursor: Buffer | undefined;
  /** Number of rows dropped by the filter. */
  readonly filteredRows: number;
}

/**
 * ScanResponse: cells_per_result 1, scanner_id 2, more_results 3, partial_flag_per_result 7, more_results_in_region 8,
 * heartbeat_message 9, scan_metrics 10, cursor 12 { row 1 }.
 */
export function readScanResponse(message: MessageReader): ScanResponse {
  const cellCounts: number[] = [];
  const partialFlags: boolean[] = [];
  let scannerId: bigint | undefined;
  let [hasMore, hasMoreInRegion, isHeartbeat] = [true, true, false];
  let cursor: Buffer | undefined;
  let filteredRows = 0;
  while (message.next()) {
    const { field } = message;
    if (field === 1) cellCounts.push(message.uint());
    else if (field === 2) scannerId = message.uint64();
    else if (field === 3) hasMore = message.bool();
    else if (field === 7) partialFlags.push(message.bool());
    else if (field === 8) hasMoreInRegion = message.bool();
    else if (field === 9) isHeartbeat = message.bool();
    else if (field === 10) filteredRows = readFilteredRows(message.message());
    else if (field === 12) cursor = readCursor(message.message());
    else message.skip();
  }
  return { cellCounts, partialFlags, scannerId, hasMore, hasMoreInRegion, isHeartbeat, cursor, filteredRows };
}

function readCursor(cursor: MessageReader): Buffer | undefined {
  let row: Buffer | undefined;
  while (cursor.nextField(1)) row = Buffer.from(cursor.bytes());
  return row;
}

/**
 * ScanMetrics: metrics 1 of NameInt64Pair { name 1, value 2 }. ROWS_FILTERED is used, because ROWS_SCANNED counts a
 * matching row twice when a server loads further families on demand. ROWS_FILTERED lacks a row at which a request ended
 * by its time limit.
 */
function readFilteredRows(metrics: MessageReader): number {
  let filteredRows = 0;
  while (metrics.nextField(1)) {
    const pair = metrics.message();
    let name = '';
    while (pair.next()) {
      if (pair.field === 1) name = pair.string();
      else if (pair.field === 2 && name === 'ROWS_FILTERED') filteredRows = pair.uint();
      else pair.skip();
    }
  }
  return filteredRows;
}
