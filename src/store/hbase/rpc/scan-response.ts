import type { Reader } from './protobuf.js';

export interface ScanResponse {
  readonly counts: readonly number[];
  readonly partial: readonly boolean[];
  readonly scanner: bigint | undefined;
  readonly more: boolean;
  readonly moreInRegion: boolean;
  readonly heartbeat: boolean;
  readonly cursor: Buffer | undefined;
  readonly scanned: number | undefined;
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
  let scanned: number | undefined;
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
        scanned = rowsScanned(message.message());
        break;
      case 12:
        cursor = cursorRow(message.message());
        break;
      default:
        message.skip();
    }
  }
  return { counts, partial, scanner, more, moreInRegion, heartbeat, cursor, scanned };
}

function cursorRow(cursor: Reader): Buffer | undefined {
  let row: Buffer | undefined;
  while (cursor.next()) {
    if (cursor.field === 1) row = Buffer.from(cursor.bytes());
    else cursor.skip();
  }
  return row;
}

/** ScanMetrics: metrics 1 of NameInt64Pair { name 1, value 2 }. */
function rowsScanned(metrics: Reader): number | undefined {
  let scanned: number | undefined;
  while (metrics.next()) {
    if (metrics.field !== 1) {
      metrics.skip();
      continue;
    }
    const pair = metrics.message();
    let name = '';
    while (pair.next()) {
      if (pair.field === 1) name = pair.string();
      else if (pair.field === 2 && name === 'ROWS_SCANNED') scanned = pair.uint();
      else pair.skip();
    }
  }
  return scanned;
}
