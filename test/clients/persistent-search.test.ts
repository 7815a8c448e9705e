import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { startProgram } from '../cli/rowan.js';
import { needs } from '../require.js';
import {
  ADMIN,
  addPerson,
  attributes,
  PEOPLE,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from '../server/directory.js';
import { waitFor } from '../waits.js';
import { unboundIdJar } from './unboundid.js';

const FOLDER = fileURLToPath(new URL('../../../test/clients/', import.meta.url));
const ACTOR = { dn: ADMIN.dn };

/** A Java program of this folder that follows the changes below the suffix, and prints each as a line. */
class Listener {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(name: string, port: number) {
    const args = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', unboundIdJar(), `${FOLDER}${name}.java`];
    this.#child = startProgram('java', [...args, '127.0.0.1', String(port), ADMIN.dn, ADMIN.password, SUFFIX]);
    this.#child.stderr!.pipe(process.stderr);
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  async next(): Promise<string> {
    return String((await waitFor('a line of a listener', this.#lines.next())).value);
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

describe('clients: persistent search', () => {
  let running: Running;
  let unboundId: Listener;
  let jndi: Listener;
  const parse = (dn: string) => testSchema().parseDn(dn);

  before(async function () {
    needs(this, 'unboundid');
    unboundIdJar();
    running = await start({}, 1);
    unboundId = new Listener('UnboundIdChanges', running.port);
    jndi = new Listener('JndiChanges', running.port);
    const following = (): number => [...running.server.services.followedSearches.values()].reduce((a, b) => a + b, 0);
    while (following() < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  });
  after(async () => {
    unboundId?.end();
    jndi?.end();
    await running?.stop();
  });

  /** Each listener tells of the change, before the next one is made: an entry is sent as it is then. */
  async function tell(...change: string[]): Promise<void> {
    const line = change.join('\t');
    expect([await unboundId.next(), await jndi.next()]).to.deep.equal([line, line]);
  }

  const rename = (dn: string, newRdn: string, newSuperior?: string): Promise<void> =>
    running.partition.rename(parse(dn), { newRdn, deleteOldRdn: true, newSuperior }, ACTOR);

  it('UnboundID and JNDI tell of adds, modifies, renames, moves and deletes', async () => {
    const { partition } = running;
    await addPerson(partition, 'new');
    await tell('add', personDn('new'));
    const changes = [{ operation: 'replace' as const, attribute: { type: 'l', values: [Buffer.from('Oslo')] } }];
    await partition.modify(parse(personDn('new')), changes, ACTOR);
    await tell('modify', personDn('new'));
    await rename(personDn('new'), 'uid=newer');
    await tell('moddn', personDn('newer'), personDn('new'));
    await rename(personDn('newer'), 'uid=newer', personDn('p0'));
    await tell('moddn', `uid=newer,${personDn('p0')}`, personDn('newer'));
    await rename(personDn('p0'), 'uid=p1');
    await tell('moddn', personDn('p1'), personDn('p0'));
    await partition.delete(parse(`uid=newer,${personDn('p1')}`), ACTOR);
    await tell('delete', `uid=newer,${personDn('p1')}`);
  });

  it('names with commas, slashes, quotes and letters beyond ASCII arrive as they are', async () => {
    const dn = `cn=Åse \\"a/b\\"\\, x\\\\y,${PEOPLE}`;
    const { partition } = running;
    await partition.add(parse(dn), attributes({ objectClass: 'device', cn: 'Åse "a/b", x\\y' }), ACTOR);
    await tell('add', dn);
    await partition.delete(parse(dn), ACTOR);
    await tell('delete', dn);
  });
});
