/** npm run bench -- fairness: how long a search waits beside legal requests of the largest size. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Arena } from '../../dist/test/server/fairness/arena.js';
import { loads } from '../../dist/test/server/fairness/loads.js';
import { cpuSeconds, isInstalled } from './machine.mjs';
import { formatRows } from './report.mjs';

const USAGE = `npm run bench -- fairness [options]
  --seconds N   a load begins anew for so long (0.6)
  --only TEXT   only loads whose name holds it
`;

export async function main(_root, args) {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: 'string', default: '0.6' },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  const ms = Number(values.seconds) * 1000;
  const wanted = Object.entries(loads).filter(
    ([name]) => name.includes(values.only) && (isInstalled('openssl') || !name.includes('StartTLS')),
  );
  const arena = new Arena();
  try {
    await arena.make();
    await arena.start();
    const probe = fork(fileURLToPath(new URL('fairness-probe.mjs', import.meta.url)), [String(arena.server.port)]);
    await once(probe, 'message');
    const lines = [];
    for (const [name, load] of wanted) {
      lines.push(await lineOf(arena, probe, name, load, ms));
      process.stderr.write(`${lines.at(-1).join('  ')}\n`);
    }
    probe.disconnect();
    const heads = ['beside', 'p50 ms', 'p99 ms', 'longest ms', 'idle: p50 ms', 'p99 ms', 'longest ms'];
    process.stdout.write(`\n${formatRows([heads, ...lines])}\n`);
  } finally {
    await arena.remove();
  }
}

async function lineOf(arena, probe, name, load, ms) {
  await quiet(arena.server.process.pid);
  const idle = await watched(probe, () => sleep(ms));
  const until = performance.now() + ms;
  const busy = await watched(probe, () => load(arena, () => performance.now() < until));
  arena.release();
  return [name, ...[busy, idle].flatMap(({ p50, p99, longest }) => [p50, p99, longest].map((n) => n.toFixed(1)))];
}

/** Waits until the server has finished earlier requests, which are no part of the next load. */
async function quiet(pid) {
  for (let before = cpuSeconds(pid), still = 0; still < 3; before = cpuSeconds(pid)) {
    await sleep(30);
    still = cpuSeconds(pid) - before < 0.02 ? still + 1 : 0;
  }
}

/** Returns the waits of the probe during `work`. */
async function watched(probe, work) {
  const told = once(probe, 'message');
  probe.send('begin');
  try {
    await work();
  } finally {
    probe.send('end');
  }
  return (await told)[0];
}
