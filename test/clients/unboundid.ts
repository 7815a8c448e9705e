import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Ended, run } from '../cli/rowan.js';

const SDK = { artifact: 'com.unboundid:unboundid-ldapsdk:6.0.11', file: 'unboundid-ldapsdk-6.0.11.jar' };
const folder = fileURLToPath(new URL('../../../.cache/unboundid/', import.meta.url));

/** Path of the UnboundID LDAP SDK for Java, whose tools are in it; Maven fetches it the first time. */
export function unboundIdJar(): string {
  const jar = join(folder, SDK.file);
  if (existsSync(jar)) return jar;
  mkdirSync(folder, { recursive: true });
  execFileSync('mvn', ['-B', '-q', 'dependency:copy', `-Dartifact=${SDK.artifact}`, `-DoutputDirectory=${folder}`]);
  return jar;
}

/** What a Java that ends within a second does without. */
const SHORT_LIVED = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];

/** Runs a tool of the SDK. */
export function unboundId(tool: string, args: readonly string[], input = ''): Promise<Ended> {
  return run('java', [...SHORT_LIVED, '-jar', unboundIdJar(), tool, ...args], { input });
}
