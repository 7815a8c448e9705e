import type { RpcSettings, RpcStatistics } from '../../../../src/store/hbase/rpc/rpc-types.js';

/** Of a client that asks whom nobody listens for, unless the test says more. */
export function rpcSettings(changes: Partial<RpcSettings> = {}): RpcSettings {
  return {
    masters: ['127.0.0.1:1'],
    operationTimeoutMs: 30_000,
    rpcTimeoutMs: 10_000,
    scannerTimeoutMs: 60_000,
    retryPauseMs: 20,
    user: 'test',
    maxInFlightPerServer: 8,
    maxQueuedBytes: 1_000_000,
    ...changes,
  };
}

/** Of a client that has asked nothing yet. */
export function noStatistics(): RpcStatistics {
  return { calls: {}, actions: 0, retries: 0, connects: 0, cellsReceived: 0, bytesReceived: 0, bytesSent: 0 };
}
