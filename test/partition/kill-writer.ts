import { parseUuid } from '../../src/partition/index.js';
import { newUuid } from '../../src/partition/model/uuid.js';
import { change, type Fixture, type Random, SYSTEM, uuidText } from './fixture.js';
import { apply, COUNTER, containerOf, type Entries, type Operation, type Told } from './kill-model.js';
import { readEntries } from './kill-read.js';

/** Entries that one writer has at most. */
const MOST = 12;

interface Choice {
  readonly random: Random;
  readonly writer: number;
  readonly entries: Entries;
  readonly gone: string[];
  readonly spread: boolean | undefined;
}

function choose({ random, writer, entries, gone, spread }: Choice, n: number): Operation {
  const live = [...entries.keys()];
  const uuid = random.pick(live) ?? '';
  const dice = random.int(100);
  const text = `${writer}-${n}-${'x'.repeat(random.chance(0.05) ? 100_000 : random.int(50))}`;
  if (live.length === 0 || (dice < 30 && live.length < MOST))
    return { op: 'add', uuid: uuidText(newUuid(spread)), name: `w${writer}-${n}`, text };
  if (dice < 50) return { op: 'set', uuid, text };
  if (dice < 60) return { op: 'rename', uuid, name: `w${writer}-${n}` };
  if (dice < 70) return { op: 'move', uuid, shared: !entries.get(uuid)!.shared };
  if (dice < 80 && gone.length > 0) return { op: 'restore', uuid: gone.pop()! };
  if (dice < 90) return { op: 'delete', uuid };
  return { op: 'count' };
}

async function perform(fixture: Fixture, writer: number, entries: Entries, operation: Operation): Promise<void> {
  if (operation.op === 'count') return fixture.modify(COUNTER, change('increment', 'uidNumber', '1'));
  if (operation.op === 'restore') return void (await fixture.partition.restore(parseUuid(operation.uuid), SYSTEM));
  if (operation.op === 'add') {
    const values = {
      objectClass: 'inetOrgPerson',
      sn: operation.name,
      description: operation.text,
      mail: operation.text,
      entryUUID: operation.uuid,
    };
    return void (await fixture.add(`cn=${operation.name},${containerOf(writer, false)}`, values, SYSTEM));
  }
  const entry = entries.get(operation.uuid)!;
  const dn = `cn=${entry.name},${containerOf(writer, entry.shared)}`;
  switch (operation.op) {
    case 'set':
      return fixture.modify(
        dn,
        change('replace', 'description', operation.text),
        change('replace', 'mail', operation.text),
      );
    case 'rename':
      return fixture.rename(dn, `cn=${operation.name}`);
    case 'move':
      return fixture.rename(dn, `cn=${entry.name}`, { newSuperior: containerOf(writer, operation.shared) });
    case 'delete':
      return fixture.delete(dn);
  }
}

/** Writes until `stopped`, and tells what it begins and what is done. */
export async function write(
  fixture: Fixture,
  writer: number,
  random: Random,
  tell: (told: Told) => void | Promise<void>,
  stopped: () => boolean,
): Promise<void> {
  const entries = await readEntries(fixture, writer);
  const gone: string[] = [];
  const choice = { random, writer, entries, gone, spread: fixture.store.supports.spread };
  const began = Date.now().toString(36);
  for (let n = 0; !stopped(); n++) {
    const operation = choose(choice, Number.parseInt(began, 36) * 1000 + n);
    await tell({ writer, begins: operation });
    await perform(fixture, writer, entries, operation);
    if (operation.op === 'delete') gone.push(operation.uuid);
    apply(entries, operation);
    await tell({ writer });
  }
}
