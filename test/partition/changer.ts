import { change, type Fixture, type Random, SYSTEM } from './fixture.js';

/** Changes a directory at random, and knows the names that it has. */
export class Changer {
  readonly #fixture: Fixture;
  readonly #random: Random;
  readonly #deleted: Buffer[] = [];
  #count = 0;

  constructor(fixture: Fixture, random: Random) {
    this.#fixture = fixture;
    this.#random = random;
  }

  async change(): Promise<void> {
    const random = this.#random;
    const fixture = this.#fixture;
    const units = await fixture.find('(objectClass=organizationalUnit)');
    const leaves = await fixture.find('(|(objectClass=inetOrgPerson)(objectClass=groupOfNames))');
    const unit = random.pick(units);
    const dn = leaves.length > 0 ? random.pick(leaves) : unit;
    const name = `n${this.#count++}`;
    const letter = (): string => random.pick(['a', 'b', 'x', 'y'.repeat(500)]);
    switch (random.int(10)) {
      case 0:
        if (units.length < 12) return void (await fixture.unit(name, unit));
        return;
      case 1:
      case 2:
        return void (await fixture.person(name, unit, { sn: letter(), userPassword: name }));
      case 3:
        return void (await fixture.add(`cn=${name},${unit}`, { objectClass: 'groupOfNames', cn: name, member: dn }));
      case 4:
        return fixture.rename(dn, `cn=${name}`, random.chance(0.5) ? { newSuperior: unit } : {});
      case 5:
        if (unit.includes(`,ou=`)) {
          const newSuperior = random.pick(units.filter((other) => !other.endsWith(unit)));
          return fixture.rename(unit, `ou=${name}`, random.chance(0.5) ? { newSuperior } : {});
        }
        return;
      case 6:
        this.#deleted.push((await fixture.read(dn)).id);
        return fixture.delete(dn);
      case 7:
        if (this.#deleted.length === 0) return;
        return void (await fixture.partition.restore(random.pick(this.#deleted), SYSTEM));
      default:
        return fixture.modify(
          dn,
          change('replace', 'description', ...(random.chance(0.3) ? [] : ['1', letter()])),
          ...(random.chance(0.5) ? [change('add', 'cn', `${name} x`)] : []),
        );
    }
  }
}
