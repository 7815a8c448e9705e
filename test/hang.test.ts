import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const folder = fileURLToPath(new URL('.', import.meta.url));
const LANE = fileURLToPath(new URL('../../scripts/test-lane.mjs', import.meta.url));

describe('tests that hang', () => {
  it('are reported while they run, with what they wait for and the processes that they started', async () => {
    const sandbox = mkdtempSync(join(tmpdir(), 'rowan-hang-'));
    const file = join(sandbox, 'hang.test.mjs');
    writeFileSync(
      file,
      `import { spawn } from 'node:child_process';
       import { waitFor } from ${JSON.stringify(new URL('waits.js', import.meta.url).href)};
       it('never ends', () => {
         spawn('sleep', ['1234']);
         return waitFor('a reply that never comes', new Promise(() => undefined));
       });`,
    );
    const lane = fork(LANE, [], { silent: true, detached: true });
    try {
      lane.send({ folder, file, part: 'all', bail: false, hangMs: 200 });
      let said = '';
      for await (const chunk of lane.stderr!) {
        said += chunk;
        if (said.includes('  open: ')) break;
      }
      expect(said).to.match(/^"never ends" has run for \d+ s$/m);
      expect(said).to.match(/^ {2}waits for: a reply that never comes \(\d+ s\)$/m);
      expect(said).to.match(/^ {2}processes: \d+ sleep 1234$/m);
    } finally {
      process.kill(-lane.pid!, 'SIGKILL');
      rmSync(sandbox, { recursive: true });
    }
  });
});
