import type { Reader } from './protobuf.js';

export interface ScanResponse {
  readonly counts: readonly number[];
  readonly partial: readonly boolean[];
  readonly scanner: bigint | undefined;
  readonly more: boolean;
  readonly moreInRegion: boolean;
  readonly heartbeat: boolean;
  readonly cursor: Buffer | undefined;
  /** Rows that the filter dropped. */
  readonly filtered: number;
}

/**
 * ScanResponse: cells_per_result 1, scanner_id 2, more_results 3, partial_flag_per_result 7, more_results_in_region 8,
 * heartbeat_message 9, scan_metrics 10, cursor 12 { row 1 }.
 */
export function readScanResponse(message: Reader): ScanResponse {
  const counts: number[] = [];
  const partial: boolean[] = [];
  let scanner: bigint | undefined;
  let [more, moreInRegion, heartbeat] = [true, true, false];
  let cursor: Buffer | undefined;
  let filtered = 0;
  while (message.next()) {
    switch (message.field) {
      case 1:
        counts.push(message.uint());
        break;
      case 2:
        scanner = message.uint64();
        break;
      case 3:
        more = message.bool();
        break;
      case 7:
        partial.push(message.bool());
        break;
      case 8:
        moreInRegion = message.bool();
        break;
      case 9:
        heartbeat = message.bool();
        break;
      case 10:
        filtered = rowsFiltered(message.message());
        break;
      case 12:
        cursor = cursorRow(message.message());
        break;
      default:
        message.skip();
    }
  }
  return { counts, partial, scanner, more, moreInRegion, heartbeat, cursor, filtered };
}

function cursorRow(cursor: Reader): Buffer | undefined {
  let row: Buffer | undefined;
  while (cursor.next()) {
    if (cursor.field === 1) row = Buffer.from(cursor.bytes());
    else cursor.skip();
  }
  return row;
}

/**
 * ScanMetrics: metrics 1 of NameInt64Pair { name 1, value 2 }. ROWS_SCANNED counts a row that matches once more when
 * the servers read the families that the filter does not need. ROWS_FILTERED lacks one at which a request ended in
 * time.
 */
function rowsFiltered(metrics: Reader): number {
  let filtered = 0;
  while (metrics.next()) {
    if (metrics.field !== 1) {
      metrics.skip();
      continue;
    }
    const pair = metrics.message();
    let name = '';
    while (pair.next()) {
      if (pair.field === 1) name = pair.string();
      else if (pair.field === 2 && name === 'ROWS_FILTERED') filtered = pair.uint();
      else pair.skip();
    }
  }
  return filtered;
}
