import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeCertificate } from './certificate.mjs';
import { compileLoad, drive, makePeople } from './load.mjs';
import { rowArgs, rowPort } from './rows.mjs';
import { Rowan } from './servers.mjs';

/** Duration of the first part of a load, in which V8 is compiling, in milliseconds. */
const WARM_UP = 1500;

/** A directory of people, served by profiled processes. */
export class Profiled {
  constructor(root, entries, tls = false) {
    this.root = root;
    this.entries = entries;
    this.folder = mkdtempSync(join(tmpdir(), 'rowan-profile-'));
    this.file = join(this.folder, 'people.ldif');
    this.rowan = new Rowan(join(this.folder, 'rowan'), root);
    this.rowan.rowan = process.env.ROWAN_BENCH_PROGRAM ?? this.rowan.rowan;
    process.once('exit', () => {
      this.rowan.process?.kill('SIGKILL');
      rmSync(this.folder, { recursive: true, force: true });
    });
    if (tls) this.rowan.certificate = makeCertificate(this.folder);
    compileLoad(root, tls);
    makePeople(root, entries, this.file);
  }

  /**
   * Loads the people. Returns the profile of the main thread from the first entry to the last, and entries a second.
   */
  load() {
    const profiles = this.#flags();
    const seconds = this.rowan.load(this.file);
    return { profile: taken(profiles), from: 0, until: Number.POSITIVE_INFINITY, ops: this.entries / seconds };
  }

  /** Runs one row on a server of its own. Returns the profile, and the range of its microseconds under load. */
  async run(row, { depth, seconds, first }) {
    const { rowan, entries } = this;
    const profiles = this.#flags();
    const spawned = performance.now();
    await rowan.start();
    if (row.argon2id) await rowan.hashPasswords(row.argon2id);
    const began = performance.now() - spawned;
    const args = rowArgs(row, { entries, depth, seconds, first, password: rowan.password });
    const { ops } = drive(this.root, rowPort(row, rowan), args);
    await rowan.stop();
    const until = began + seconds * 1000;
    const from = began + Math.min(WARM_UP, (seconds * 1000) / 2);
    return { profile: taken(profiles), from: from * 1000, until: until * 1000, ops };
  }

  #flags() {
    const folder = mkdtempSync(join(this.folder, 'profiles-'));
    this.rowan.nodeFlags = ['--cpu-prof', '--cpu-prof-interval=250', `--cpu-prof-dir=${folder}`];
    return folder;
  }
}

/** Returns the profile of the longest run of a main thread. */
function taken(folder) {
  // CPU.DATE.TIME.PROCESS.THREAD.NUMBER.cpuprofile
  const names = readdirSync(folder).filter((name) => name.split('.')[4] === '0');
  const profiles = names.map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
  const long = (profile) => profile.endTime - profile.startTime;
  const [longest] = profiles.sort((a, b) => long(b) - long(a));
  if (!longest) throw new Error('no profile was left');
  return longest;
}
