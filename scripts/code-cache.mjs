/** Runs the code that all commands share, and stores what V8 has compiled beside the bundled command line. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import cached from './program.cjs';

const { program, script } = cached.loadProgram();
const folder = mkdtempSync(join(tmpdir(), 'rowan-code-cache-'));
const data = ['--data', join(folder, 'data')];
const sample = fileURLToPath(new URL('sample.ldif', import.meta.url));
process.env.ROWAN_ADMIN_PASSWORD = 'of no directory that is kept';

process.stdout.write = (text) => {
  if (String(text).startsWith('rowan ready')) process.emit('SIGTERM', 'SIGTERM');
  return true;
};
try {
  const { run } = await program.main();
  for (const words of [
    ['init', ...data, '--suffix', 'dc=example,dc=com', '--admin-dn', 'cn=admin,dc=example,dc=com'],
    ['import', ...data, sample],
    ['check', ...data],
    ['export', ...data],
    ['serve', ...data, '--listen', 'ldap://127.0.0.1:0', '--log-level', 'fatal'],
  ]) {
    process.argv.splice(2, Infinity, ...words);
    await run();
    if (process.exitCode) break;
  }
  if (!process.exitCode) writeFileSync(cached.CACHE, script.createCachedData());
} finally {
  rmSync(folder, { recursive: true, force: true });
}
