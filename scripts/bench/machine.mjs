import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

function firstLine(text) {
  return text.trim().split('\n')[0] ?? '';
}

/** Returns the commit of a checkout, and whether files have changed since. */
export function commit(root) {
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no') === '' ? '' : ' with changes';
    return git('rev-parse', '--short', 'HEAD') + changed;
  } catch {
    return 'no git checkout';
  }
}

/** Whether a program is installed. */
export function isInstalled(program) {
  return spawnSync('sh', ['-c', 'command -v "$0"', program]).status === 0;
}

function slapdVersion() {
  if (!isInstalled('slapd')) return undefined;
  const said = spawnSync('slapd', ['-VV'], { encoding: 'utf8' });
  return /slapd ([\d.]+\S*)/.exec(said.stderr + said.stdout)?.[1] ?? 'unknown version';
}

/** Describes the hardware and software that figures depend on. */
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

/** Returns a process and its children. */
export function processes(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  return [pid, ...children.flatMap(processes)];
}

/**
 * Returns the memory of a process outside the page cache in bytes: anonymous and shared memory in
 * /proc/PID/smaps_rollup.
 */
export function privateMemory(pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const kib = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
  return (kib('Anonymous') + kib('Pss_Shmem')) * 1024;
}

/** Unit of processor time in /proc: USER_HZ, which is 100 on every Linux that Node runs on. */
const TICKS_A_SECOND = 100;

/** Returns the processor time of all threads of a process in seconds; 0 for an ended process. */
export function cpuSeconds(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may contain anything. utime and stime are fields 14 and 15; the first after the name is
    // 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND;
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return 0;
    throw error;
  }
}

/** Returns the processor time of all processes together since boot, in seconds. */
export function machineCpuSeconds() {
  const [, user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'utf8')
    .split('\n')[0]
    .split(/\s+/)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS_A_SECOND;
}
