import { expect } from 'chai';
import { covers } from '../../src/access/rule.js';
import { Schema } from '../../src/schema/index.js';

describe('attributes of an access rule', () => {
  const schema = Schema.load();
  const set = (...names: string[]) => ({
    includesEntry: false,
    includesChildren: false,
    includesUser: true,
    includesOperational: true,
    types: new Set(names.map((name) => schema.attribute(name)!)),
    descriptions: names.map((name) => schema.requireDescription(name)),
  });

  it('an access rule covers secrets only by name, and never secrets that only the server writes', () => {
    const secrets = [...schema.attributes()].filter(({ secret }) => secret).map(({ name }) => name);
    const all = set('cn', ...secrets);
    const covered = secrets.filter((name) => covers(all, schema.requireDescription(name)));
    expect(covered).to.have.members(['userPassword', 'authPassword']);
    for (const name of secrets) expect(covers(set('cn'), schema.requireDescription(name)), name).to.equal(false);
    expect(covers(all, schema.requireDescription('cn'))).to.equal(true);
  });
});
