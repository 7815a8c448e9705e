import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

function firstLine(text) {
  return text.trim().split('\n')[0] ?? '';
}

function commit(root) {
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no') === '' ? '' : ' with changes';
    return git('rev-parse', '--short', 'HEAD') + changed;
  } catch {
    return 'no git checkout';
  }
}

/** Whether a program is there to start. */
export function isInstalled(program) {
  return spawnSync('sh', ['-c', 'command -v "$0"', program]).status === 0;
}

function slapdVersion() {
  if (!isInstalled('slapd')) return undefined;
  const said = spawnSync('slapd', ['-VV'], { encoding: 'utf8' });
  return /slapd ([\d.]+\S*)/.exec(said.stderr + said.stdout)?.[1] ?? 'unknown version';
}

/** What a figure depends on. */
export function describeMachine(root) {
  const all = cpus();
  return {
    date: new Date().toISOString().slice(0, 16).replace('T', ' ') + ' UTC',
    cores: all.length,
    cpu: all[0]?.model.trim() ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: firstLine(readFileSync('/proc/sys/kernel/osrelease', 'utf8')),
    node: process.version,
    slapd: slapdVersion(),
    commit: commit(root),
  };
}

/** A process and those that it has started. */
export function processes(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  return [pid, ...children.flatMap(processes)];
}

/** Memory of a process outside the page cache, in bytes: what /proc/PID/smaps_rollup calls anonymous and shared memory. */
export function privateMemory(pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const kib = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
  return (kib('Anonymous') + kib('Pss_Shmem')) * 1024;
}
