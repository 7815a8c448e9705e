/** Java, Maven, the libraries and the compiled class: whatever is needed before HBase can start. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const sources = fileURLToPath(new URL('.', import.meta.url));
const cache = fileURLToPath(new URL('../../.cache/hbase/', import.meta.url));
const JAVA = 17;

export class Refusal extends Error {}

function programOf(name) {
  const home = process.env.JAVA_HOME;
  return home !== undefined && home !== '' && name !== 'mvn' ? join(home, 'bin', name) : name;
}

function run(name, args) {
  return spawnSync(programOf(name), args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
}

function requireJava() {
  const { error, stderr } = run('java', ['-version']);
  const hint = `Java ${JAVA} or newer is needed (Debian: apt-get install openjdk-${JAVA}-jdk-headless)`;
  if (error) throw new Refusal(`${programOf('java')} does not run: ${hint}`);
  const version = /version "(\d+)/.exec(stderr)?.[1];
  if (version === undefined || Number(version) < JAVA) throw new Refusal(`this is Java ${version ?? '?'}: ${hint}`);
}

/** Makes `folder` as a whole or not at all, so that a run that breaks off leaves nothing half made. */
function makeOnce(folder, make) {
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  const draft = mkdtempSync(join(cache, 'draft-'));
  try {
    make(draft);
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    // Somebody else was faster.
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

function nameFor(kind, ...files) {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(join(sources, file)));
  return join(cache, `${kind}-${hash.digest('hex').slice(0, 12)}`);
}

function download(folder) {
  const probe = run('mvn', ['-v']);
  if (probe.error || probe.status !== 0)
    throw new Refusal('Maven is needed to fetch HBase the first time (Debian: apt-get install maven)');
  process.stderr.write('fetching HBase with Maven, once (about 110 MB) …\n');
  const args = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${folder}`];
  const { status, stdout, stderr } = run('mvn', ['-B', '-q', '-f', join(sources, 'pom.xml'), ...args]);
  if (status !== 0) throw new Refusal(`Maven could not fetch HBase:\n${(stdout + stderr).trim().slice(-2000)}`);
}

function compile(folder, libraries) {
  const source = join(sources, 'SingleHBase.java');
  const { error, status, stderr } = run('javac', ['-nowarn', '-cp', `${libraries}/*`, '-d', folder, source]);
  if (error) throw new Refusal(`${programOf('javac')} does not run: the JDK is needed, not only the runtime`);
  if (status !== 0) throw new Refusal(`SingleHBase.java does not compile:\n${stderr.trim()}`);
}

/**
 * The Java program and the class path to start; fetches and compiles what is not in `.cache/hbase` yet. Throws
 * `Refusal`.
 */
export function prepare() {
  requireJava();
  const libraries = makeOnce(nameFor('libraries', 'pom.xml'), download);
  const classes = makeOnce(nameFor('classes', 'pom.xml', 'SingleHBase.java'), (folder) => compile(folder, libraries));
  return { java: programOf('java'), classPath: [join(sources, 'conf'), classes, `${libraries}/*`].join(':') };
}
