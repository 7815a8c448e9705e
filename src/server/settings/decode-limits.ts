import { type DecodeLimits, defaultLimits } from '../../protocol/limits.js';
import type { Config } from './index.js';

export function decodeLimits({ limits }: Config): DecodeLimits {
  return {
    ...defaultLimits,
    maxFilterDepth: limits.filterDepth,
    maxFilterNodes: limits.filterNodes,
    maxControls: limits.controls,
  };
}
