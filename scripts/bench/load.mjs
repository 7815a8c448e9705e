import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Path of the load generator in the project. */
export const LOAD = '.cache/ldapload';

/** Compiles the load generator. `tls` requires the package libssl-dev. */
export function compileLoad(root, tls = false) {
  const source = join(root, 'scripts/load/ldapload.c');
  const load = join(root, LOAD);
  mkdirSync(dirname(load), { recursive: true });
  const openssl = tls ? ['-DTLS', '-lssl', '-lcrypto'] : [];
  execFileSync('gcc', ['-O2', '-o', load, source, ...openssl], { stdio: 'inherit' });
}

/** Writes LDIF with `count` people. */
export function makePeople(root, count, file) {
  const args = ['-c', '"$0" "$1" "$2" > "$3"', process.execPath, join(root, 'scripts/people.mjs'), String(count), file];
  const run = spawnSync('sh', args, { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`people.mjs failed: ${run.stderr}`);
}

/** Drives a server with ldapload and returns the measurements. Throws when a request failed. */
export function drive(root, port, args) {
  const run = spawnSync(join(root, LOAD), ['-p', String(port), '-j', ...args.map(String)], { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`ldapload ${args.join(' ')}: ${run.stderr}${run.stdout}`);
  return JSON.parse(run.stdout);
}

/** Starts a background load. `end` waits until the load is done. */
export function driveBeside(root, port, args) {
  const run = spawn(join(root, LOAD), ['-p', String(port), '-j', ...args.map(String)]);
  const said = [];
  for (const stream of [run.stdout, run.stderr]) stream.on('data', (data) => said.push(data));
  const ended = new Promise((resolve) => run.once('close', resolve));
  return async () => {
    const status = await ended;
    const text = Buffer.concat(said).toString();
    if (status !== 0) throw new Error(`ldapload ${args.join(' ')}: ${text}`);
    return JSON.parse(text);
  };
}
