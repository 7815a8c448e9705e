import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { run } from '../cli/rowan.js';
import { needs } from '../require.js';
import { soakTest } from '../rounds.js';

const SCRIPT = fileURLToPath(new URL('../../../scripts/hbase', import.meta.url));

describe('scripts/hbase', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-script-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  async function says(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
    const { code, stdout, stderr } = await run(process.execPath, [SCRIPT, ...args, '--data', folder], { env });
    return `${code} ${stdout}${stderr}`;
  }

  it('names what is wrong with its command line', async () => {
    expect(await says([])).to.match(/^2 hbase: which command\?\nusage: /);
    expect(await says(['begin'])).to.match(/^2 hbase: unknown command "begin"\nusage: /);
    const follow = ['--region-port', '--rest-port', '--zookeeper-port'];
    for (const port of ['13819', '65516'])
      expect(await says(['start', '--port', port])).to.equal(
        `2 hbase: --port must be 13820 to 65515, not ${port} (unless given, ${follow.join(', ')} follow it)\n`,
      );
    expect(await says(['start', '--port', '500', '--zookeeper-port', '2181'])).to.match(
      /^2 hbase: --port must be 7921 to 65515, not 500 \(unless given, --region-port, --rest-port follow it\)$/m,
    );
    const given = follow.flatMap((name) => [name, '70000']);
    expect(await says(['start', '--port', '0', ...given])).to.equal('2 hbase: --port must be 1 to 65535, not 0\n');
    expect(await says(['start', '--port', '500', ...given])).to.match(
      /: --region-port must be 1 to 65535, not 70000$/m,
    );
    expect(await says(['start', '--port', '65514', '--region-servers', '3'])).to.match(
      /: --port must be 13820 to 65513/,
    );
    expect(await says(['start', '--memory', 'much'])).to.match(/^2 hbase: --memory must be a size/);
    expect(await says(['stop', '--server', '0'])).to.equal('2 hbase: --server must be 1 to 9, not 0\n');
    expect(await says(['start', '--session-ms', '9'])).to.match(/^2 hbase: --session-ms must be 1000 to 600000/);
    expect(await says(['start', '--bogus'])).to.match(/^2 hbase: Unknown option '--bogus'/);
  });

  it('knows when nothing runs, also when another process has the id by now', async () => {
    expect(await says(['status'])).to.equal(`1 no HBase runs on ${folder}\n`);
    writeFileSync(join(folder, 'process.json'), JSON.stringify({ pid: process.pid, url: 'hbase://x', ports: {} }));
    expect(await says(['status'])).to.equal(`1 no HBase runs on ${folder}\n`);
    expect(await says(['stop', '--now'])).to.equal(`0 no HBase runs on ${folder}\n`);
    for (const command of ['start', 'stop'])
      expect(await says([command, '--server', '1'])).to.equal(`1 hbase: no HBase runs on ${folder}\n`);
  });

  it('tells of a region server that has ended, and nothing else', async () => {
    const args = ['-e', 'setInterval(() => {}, 1e6)', '--', `-Drowan.hbase.data=${folder}`, 'end'];
    const main = spawn(process.execPath, args);
    try {
      const record = { pid: main.pid, url: 'hbase://x', ports: {}, servers: [{ port: 5 }] };
      writeFileSync(join(folder, 'process.json'), JSON.stringify(record));
      expect(await says(['status'])).to.equal(`0 hbase://x pid ${main.pid}\nregion server 1 port 5 has ended\n`);
    } finally {
      main.kill('SIGKILL');
    }
  });

  it('says that a port is taken, and by which option another is chosen', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    try {
      const said = await says(['start', '--rest-port', String(port), '--port', '29170']);
      expect(said).to.match(/^1 hbase: port \d+ cannot be used \(EADDRINUSE\).*--rest-port\n$/);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  soakTest('starts again on its data right after a kill -9, without a stop', async function () {
    needs(this, 'hbase');
    this.timeout(900_000);
    const start = ['start', '--port', '29170', '--while', String(process.pid)];
    const pidOf = (said: string): number => Number(/ is ready: pid (\d+)/.exec(said)?.[1]);
    const first = pidOf(await says(start));
    process.kill(first, 'SIGKILL');
    try {
      const second = pidOf(await says(start));
      expect(second).to.be.greaterThan(0).and.not.equal(first);
    } finally {
      await says(['stop', '--now']);
    }
  });

  it('says that Java is missing, and where from', async () => {
    const said = await says(['start', '--port', '29170'], { PATH: folder, JAVA_HOME: '' });
    expect(said).to.match(/^1 hbase: java does not run: Java 17 or newer is needed \(Debian: apt-get/);
  });
});
