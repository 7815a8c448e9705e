import { type DecodeLimits, defaultLimits } from '../../protocol/limits.js';
import type { Config } from './index.js';

/** Returns the limits for decoding requests according to the configuration. */
export function decodeLimits({ limits }: Config): DecodeLimits {
  return {
    ...defaultLimits,
    maxFilterDepth: limits.filterDepth,
    maxFilterNodes: limits.filterNodes,
    maxControls: limits.controls,
  };
}
