import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { META_TABLE } from '../../src/partition/model/tables.js';
import type { Schema } from '../../src/schema/index.js';
import { ENGINES, openStore } from '../partition/fixture.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  emptyPartition,
  fill,
  PEOPLE,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';
import { POLICY_CONTROL, policyTold } from './suite/password-policy.js';

const SYSTEM = { dn: ADMIN.dn, system: true };
const RULES = 'rules: [{ name: users read, who: { users: true }, allow: [view] }]';
const OLD = { userPassword: '{CLEARTEXT}right', pwdChangedTime: '20200101000000Z' };
const GROUP = `cn=staff,${SUFFIX}`;

for (const engine of ENGINES) {
  describe(`server: password policies by access rules (${engine})`, () => {
    let one: Running;
    let schema: Schema;
    let made: string | undefined;
    before(async () => {
      schema = testSchema();
      const { store, folder } = await openStore(engine);
      made = folder;
      const partition = await emptyPartition(store);
      await fill(partition, 0);
      one = await start({ ...CHEAP, 'passwords.policy': policyDn(9) }, 0, partition);
      // Whose password has expired is told by its policy how many grace logins there are: that tells which one it is.
      for (const grace of [1, 2, 3, 4, 5, 9])
        await add(policyDn(grace), {
          objectClass: ['device', 'pwdPolicy'],
          cn: `grace ${grace}`,
          pwdAttribute: 'userPassword',
          pwdMaxAge: '1000',
          pwdGraceAuthNLimit: String(grace),
        });
      await add(`ou=near,${PEOPLE}`, { objectClass: 'organizationalUnit', ou: 'near' });
      await add(GROUP, { objectClass: 'groupOfNames', cn: 'staff', member: `cn=inner,${SUFFIX}` });
      await add(`cn=inner,${SUFFIX}`, { objectClass: 'groupOfNames', cn: 'inner', member: ADMIN.dn });
    });
    after(async () => {
      await one.stop();
      await one.partition.close();
      if (made) rmSync(made, { recursive: true });
    });
    afterEach(() => rules(''));

    function policyDn(grace: number): string {
      return `cn=grace ${grace},${SUFFIX}`;
    }

    async function add(dn: string, values: Readonly<Record<string, string | readonly string[]>>): Promise<void> {
      await one.partition.add(schema.parseDn(dn), attributes(values), SYSTEM);
    }

    const modify = (dn: string, operation: 'add' | 'delete' | 'replace', type: string, ...values: string[]) =>
      one.partition.modify(
        schema.parseDn(dn),
        [{ operation, attribute: { type, values: values.map((value) => Buffer.from(value)) } }],
        SYSTEM,
      );

    async function rules(policies: string): Promise<void> {
      await one.partition.setAccess(`${RULES}\n${policies}`, ADMIN.dn, one.partition.accessVersion);
    }

    async function person(uid: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
      await one.partition.add(schema.parseDn(personDn(uid)), personAttributes(uid, { ...OLD, ...more }), SYSTEM);
      return personDn(uid);
    }

    /** How many grace logins the entry's policy gives; the one that asks takes none. */
    async function graceOf(dn: string): Promise<number> {
      const client = await RawClient.open(one.port);
      const answer = await client.request(simpleBind(dn, 'right'), [POLICY_CONTROL]);
      client.close();
      expect(answer.code, dn).to.equal(0);
      const { id } = (await one.partition.findRow(schema.parseDn(dn)))!;
      await one.partition.clearAccountState(id);
      return policyTold(answer)!.at(-1)! + 1;
    }

    it('the deeper place comes before one above it, a filter before places, a group before all', async () => {
      const far = await person('far');
      const near = `uid=near,ou=near,${PEOPLE}`;
      await one.partition.add(schema.parseDn(near), personAttributes('near', OLD), SYSTEM);
      const subtree = (dn: string) => `to: { subtree: "${dn}" }`;
      const list = [
        `- { name: z, policy: "${policyDn(1)}" }`,
        `- { name: y, policy: "${policyDn(2)}", ${subtree(SUFFIX)} }`,
        `- { name: x, policy: "${policyDn(3)}", to: { subtree: ["ou=near,${PEOPLE}", "ou=other,${SUFFIX}"] } }`,
        `- { name: w, policy: "${policyDn(4)}", to: { filter: "(employeeType=temporary)" } }`,
        `- { name: v, policy: "${policyDn(5)}", group: "${GROUP}" }`,
      ];
      expect(await graceOf(far), 'by the setting').to.equal(9);
      await rules(`passwordPolicies:\n${list.slice(0, 1).join('\n')}`);
      expect(await graceOf(far), 'for everybody').to.equal(1);
      await rules(`passwordPolicies:\n${list.join('\n')}`);
      expect([await graceOf(far), await graceOf(near)]).to.deep.equal([2, 3]);
      await modify(near, 'add', 'employeeType', 'temporary');
      expect([await graceOf(far), await graceOf(near)]).to.deep.equal([2, 4]);
      await modify(`cn=inner,${SUFFIX}`, 'add', 'member', near);
      expect(await graceOf(near), 'in a group of the group').to.equal(5);
      await modify(`cn=inner,${SUFFIX}`, 'delete', 'member', near);
      await modify(near, 'delete', 'employeeType');
      expect(await graceOf(near), 'no longer').to.equal(3);
      const to = { newRdn: 'ou=renamed', deleteOldRdn: true, newSuperior: undefined };
      await one.partition.rename(schema.parseDn(`ou=near,${PEOPLE}`), to, SYSTEM);
      expect(await graceOf(`uid=near,ou=renamed,${PEOPLE}`), 'the place has another name').to.equal(2);
      await modify(far, 'add', 'pwdPolicySubentry', policyDn(4));
      expect(await graceOf(far), 'by the entry itself').to.equal(4);
    });

    it('of those alike the first name comes first; what is not there is told, and the default holds', async () => {
      const dn = await person('alike', { employeeType: 'b', businessCategory: 'b' });
      const byFilter = (name: string, grace: number, attribute: string) =>
        `- { name: "${name}", policy: "${policyDn(grace)}", to: { filter: "(${attribute}=b)" } }`;
      const list = [byFilter('10', 2, 'employeeType'), byFilter('05', 3, 'businessCategory')];
      await rules(`passwordPolicies:\n${list.join('\n')}`);
      expect(await graceOf(dn)).to.equal(3);
      await rules(`passwordPolicies:\n${byFilter('gone', 7, 'employeeType')}`);
      expect(await graceOf(dn)).to.equal(9);
      expect(one.lines.filter((line) => line.includes(policyDn(7)))).to.have.length(1);
    });

    it('a policy that counts makes binds as nobody write, before anybody it is for has bound', async () => {
      const policy = `cn=counting,${SUFFIX}`;
      await add(policy, {
        objectClass: ['device', 'pwdPolicy'],
        cn: 'counting',
        pwdAttribute: 'userPassword',
        pwdLockout: 'TRUE',
        pwdMaxFailure: '3',
      });
      const { partition } = one;
      const noted = partition.changeDecoyState.bind(partition);
      let written = 0;
      partition.changeDecoyState = () => {
        written++;
        return noted();
      };
      const client = await RawClient.open(one.port);
      expect(await client.bind(personDn('nobody'), 'wrong')).to.equal(49);
      expect(written).to.equal(0);
      await rules(`passwordPolicies: [{ name: c, policy: "${policy}", group: "${GROUP}" }]`);
      expect(await client.bind(personDn('nobody'), 'wrong')).to.equal(49);
      expect(written).to.equal(1);
      client.close();
    });

    it('who has bound before is looked for again only when something has changed', async () => {
      const dn = await person('again');
      await rules(`passwordPolicies: [{ name: a, policy: "${policyDn(2)}", group: "${GROUP}" }]`);
      const { partition } = one;
      const groupsOf = partition.groupsOf.bind(partition);
      let asked = 0;
      partition.groupsOf = (user) => {
        asked++;
        return groupsOf(user);
      };
      for (let i = 0; i < 3; i++) expect(await graceOf(dn)).to.equal(9);
      expect(asked).to.equal(1);
      await modify(GROUP, 'add', 'member', dn);
      for (let i = 0; i < 3; i++) expect(await graceOf(dn)).to.equal(2);
      expect(asked).to.equal(2);
    });

    it('without any of them a bind reads nothing of groups', async () => {
      const dn = await person('plain');
      const { store } = one.partition;
      const get = store.get.bind(store);
      const keys: string[] = [];
      store.get = (table: string, key: Buffer) => {
        if (table === META_TABLE.name) keys.push(key.toString());
        return get(table, key);
      };
      await graceOf(dn);
      await graceOf(dn);
      store.get = get;
      expect(keys).to.not.include('groups');
    });
  });
}
