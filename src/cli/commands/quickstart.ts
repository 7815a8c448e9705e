import { existsSync, rmSync } from 'node:fs';
import type { Command } from 'commander';
import { DEFAULT_PRESET } from '../../access/presets.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { addSettingFlags } from '../config/index.js';
import { CliError, UsageError } from '../exit.js';
import { Importer } from '../import/importer.js';
import { RejectsFile } from '../import/rejects.js';
import { openInput, RecordSource } from '../import/source.js';
import { createDirectory, withDirectory } from '../open-directory.js';
import { configSources, directoryCommand, resolveSettings, type Settings } from '../options.js';
import { SAMPLE } from '../sample.js';
import { generatePassword } from '../secrets.js';
import { serve } from './serve.js';

const SUFFIX = 'dc=example,dc=com';
const ADMIN = `cn=admin,${SUFFIX}`;

async function loadSample(settings: Settings): Promise<number> {
  return withDirectory(settings, {}, async ({ partition }) => {
    const source = new RecordSource(openInput(SAMPLE).chunks, {});
    const rejects = new RejectsFile(`${settings.store}/sample.rejects`, false);
    const policy = hashPolicyOf(settings.config);
    const options = { policy, continue: false, resume: undefined, onProgress: () => undefined };
    const { loadedCount, fatalRefusal } = await new Importer(partition, source, rejects, undefined, options).run();
    if (fatalRefusal) throw new CliError(`the sample directory, line ${fatalRefusal.line}: ${fatalRefusal.reason}`);
    return loadedCount;
  });
}

/** Creates the sample directory. Returns the password of the administrator. Removes everything on failure. */
async function createSample(settings: Settings): Promise<string> {
  const password = generatePassword();
  try {
    await createDirectory(settings, {
      suffixes: [SUFFIX],
      adminDn: ADMIN,
      adminPassword: async () => Buffer.from(password),
      access: DEFAULT_PRESET,
    });
    const entries = await loadSample(settings);
    process.stdout.write(`Created ${settings.store} with a sample directory of ${entries} entries.\n`);
  } catch (error) {
    rmSync(settings.store, { recursive: true, force: true });
    throw error;
  }
  return password;
}

function greet(urls: readonly string[], password: string | undefined, folder: string): void {
  const passwordText =
    password === undefined
      ? `as shown when it was created (npx rowan passwd --data ${folder} sets another)`
      : `${password}   (shown this once)`;
  process.stdout.write(`
Rowan listens on ${urls.join(' ')}
  administrator  ${ADMIN}
  password       ${passwordText}

Try, in another terminal:
  ldapsearch -x -H ${urls[0]} -D ${ADMIN} -W -b ${SUFFIX} '(title=*engineer*)'
  npx rowan --help

Ctrl-C ends it.
`);
}

export function addQuickstart(program: Command): void {
  const command = directoryCommand(program, 'quickstart', 'serve a sample directory, made when there is none', '', {
    hidden: true,
  });
  addSettingFlags(command).action(async (_options: object, self: Command) => {
    const settings = resolveSettings(self, 'data');
    if (settings.config.store !== undefined)
      throw new UsageError('the sample directory is made in a folder: give --data');
    const password = existsSync(settings.store) ? undefined : await createSample(settings);
    await serve(settings, configSources(self), (urls) => greet(urls, password, settings.store));
  });
}
