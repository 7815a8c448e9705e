import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { recordContext } from '../../src/dropfolder/apply-record.js';
import { DropFolder, type DropFolderSettings, type PassResult } from '../../src/dropfolder/drop-folder.js';
import { dryRun } from '../../src/dropfolder/dry-run.js';
import type { Receipt } from '../../src/dropfolder/result.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { DEFAULT_POLICY } from '../../src/password/policy.js';
import type { Store } from '../../src/store/contract.js';
import { type Fixture, SUFFIX } from '../partition/fixture.js';

export const PLACES = ['working', 'target', 'processing', 'processed', 'expired', 'error'] as const;
export type Place = (typeof PLACES)[number];

export function dropSettings(given: Partial<DropFolderSettings> = {}): DropFolderSettings {
  return {
    ...{ as: undefined, lease: 60, poll: 5, maxBytes: 2 ** 30, validateFirst: false, policy: DEFAULT_POLICY },
    accounts: { shadow: false },
    ...given,
  };
}

/** A drop folder that is gone after the test. */
export class Drop {
  readonly root = mkdtempSync(join(tmpdir(), 'rowan-drop-'));
  readonly folder = join(this.root, 'drop');

  constructor() {
    mkdirSync(this.folder);
  }

  path(place: Place, name = ''): string {
    return join(this.folder, 'incoming', place, name);
  }

  make(): void {
    for (const place of PLACES) mkdirSync(this.path(place), { recursive: true });
  }

  /** As a producer does. */
  drop(name: string, text: string | Buffer): void {
    this.make();
    writeFileSync(this.path('working', name), text);
    renameSync(this.path('working', name), this.path('target', name));
  }

  /** Names that do not begin with a dot. */
  names(place: Place): string[] {
    return readdirSync(this.path(place))
      .filter((name) => !name.startsWith('.'))
      .sort();
  }

  text(place: Place, name: string): string {
    return readFileSync(this.path(place, name), 'utf8');
  }

  receipt(place: Place, name: string): Receipt {
    return JSON.parse(this.text(place, `${name}.receipt.json`)) as Receipt;
  }

  receipts(): Receipt[] {
    return (['processed', 'error', 'expired'] as const).flatMap((place) =>
      this.names(place)
        .filter((name) => name.endsWith('.receipt.json'))
        .map((name) => this.receipt(place, name.replace(/\.receipt\.json$/, ''))),
    );
  }

  /** What a drop folder of its own says, and what it logs. */
  async pass(
    { partition }: Fixture,
    given: Partial<DropFolderSettings> = {},
    signal?: AbortSignal,
  ): Promise<{ result: PassResult; log: string }> {
    const lines: string[] = [];
    const logger = pino({ base: null }, { write: (line: string) => lines.push(line) });
    const drop = await DropFolder.open(this.folder, partition, dropSettings(given), logger);
    const result = await drop.runPass(signal);
    await drop.close();
    return { result, log: lines.join('') };
  }

  /** The lines of a dry run. */
  async dry({ partition }: Fixture, given: Partial<DropFolderSettings> = {}): Promise<string[]> {
    const log = pino({ enabled: false });
    const lines: string[] = [];
    await (await recordContext(partition, dropSettings(given), log)).withTrial(async (trial) => {
      for await (const line of dryRun(this.folder, trial)) lines.push(line);
    });
    return lines;
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

export function unitDn(ou: string): string {
  return `ou=${ou},${SUFFIX}`;
}

export function unit(ou: string): string {
  return `dn: ${unitDn(ou)}\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;
}

/** Keys of the rows that files have. */
export async function dropRows(store: Store): Promise<string[]> {
  store.renewReads?.();
  const keys: string[] = [];
  const scan = store.scan(META_TABLE.name, { from: Buffer.from('drop,'), to: Buffer.from('drop-') });
  for (let batch = await scan.next(); batch; batch = await scan.next())
    keys.push(...batch.keys.map((key) => key.toString('latin1')));
  scan.close();
  return keys;
}
