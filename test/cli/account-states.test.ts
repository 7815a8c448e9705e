import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { Random } from '../schema/random.js';
import { RawClient } from '../server/raw-client.js';
import { ADA, PEOPLE, rowanDoes, Sandbox, SUFFIX, serve } from './rowan.js';

const POLICY = `cn=policy,${SUFFIX}`;
const BRAM = `uid=bram,${PEOPLE}`;
const CARO = `uid=grace,${PEOPLE}`;
const UNDER = ['--passwords-policy', POLICY];

describe('cli: what binds leave behind, exported and imported', () => {
  const [from, to] = [new Sandbox(), new Sandbox()];
  before(() => from.initSample());
  after(() => Promise.all([from.remove(), to.remove()]));

  async function binds(data: string, tries: readonly (readonly [dn: string, password: string])[]): Promise<number[]> {
    const server = await serve(data, UNDER);
    const client = await RawClient.open(server.port);
    const codes: number[] = [];
    for (const [dn, password] of tries) codes.push(await client.bind(dn, password));
    client.close();
    await server.stop();
    return codes;
  }

  const wrong = (dn: string, times: number) => Array.from({ length: times }, () => [dn, 'no'] as const);
  const show = async (data: string, dn: string): Promise<string> =>
    (await rowanDoes(['account', 'show', dn, ...UNDER, '--data', data]))
      .split('\n')
      .filter((line) => !/password changed/.test(line))
      .join('\n');

  it('failures, locks, grace logins and the last bind are the same in the directory that imports', async () => {
    const policy = from.path('policy.ldif');
    writeFileSync(
      policy,
      `version: 1

dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 3
pwdLockoutDuration: 100000
pwdMaxAge: 1000000
pwdGraceAuthNLimit: 3
pwdMaxIdle: 1000000
`,
    );
    await rowanDoes(['import', policy, '--data', from.data]);
    for (const dn of [ADA, BRAM, CARO]) await rowanDoes(['passwd', dn, '--data', from.data], { input: 'right\n' });
    await rowanDoes(['account', 'expire', CARO, ...UNDER, '--data', from.data]);
    const before = [...wrong(ADA, 2), ...wrong(BRAM, 3), [CARO, 'right'] as const];
    expect(await binds(from.data, before)).to.deep.equal([49, 49, 49, 49, 49, 0]);
    const file = from.path('all.ldif');
    await rowanDoes(['export', ...UNDER, '--data', from.data, '--output', file]);
    await to.init();
    await rowanDoes(['import', file, '--data', to.data]);
    const lines = (text: string) => text.split('\n').slice(1);
    expect(await show(from.data, ADA)).to.match(/2 failed binds, the last 20/);
    expect(await show(to.data, ADA)).to.equal(await show(from.data, ADA));
    const [, until] = /locked by failed binds (since \S+ until \S+)/.exec(await show(from.data, BRAM))!;
    expect(lines(await show(to.data, BRAM)).join('\n')).to.match(new RegExp(`locked by pwdAccountLockedTime ${until}`));
    expect(await show(from.data, CARO)).to.match(/1 grace login used/);
    expect(await show(to.data, CARO)).to.equal(await show(from.data, CARO));
    const after = [
      [BRAM, 'right'],
      [ADA, 'no'],
      [ADA, 'right'],
      [CARO, 'right'],
    ] as const;
    expect(await binds(to.data, after)).to.deep.equal([49, 49, 49, 0]);
    const again = await rowanDoes(['export', ...UNDER, '--data', to.data, '--filter', `(uid=ada)`]);
    expect(again.match(/^pwdFailureTime/gm), 'the failures that made the lock').to.have.length(3);
    expect(again).to.match(/^pwdAccountLockedTime: 20/m);
    const plain = await rowanDoes(['export', '--no-operational', '--data', from.data]);
    expect(plain).to.not.include('pwdFailureTime');
  });

  it('a restored folder is exported as the first was, byte for byte', async () => {
    const random = new Random();
    const time = () => `20${10 + random.below(16)}0${1 + random.below(9)}1${random.below(10)}000000Z`;
    const some = (value: () => string) => [...new Set(Array.from({ length: random.below(9) }, value))];
    const uids = Array.from({ length: 20 }, (_, i) => `r${i}`);
    const entries = uids.map((uid) => {
      const stored = `{CLEARTEXT}${uid}`;
      const remembered = () => `${time()}#1.3.6.1.4.1.1466.115.121.1.40#${stored.length}#${stored}`;
      const lines = [
        ...['objectClass: inetOrgPerson', `uid: ${uid}`, `cn: ${uid}`, `sn: ${uid}`, 'userPassword: {CLEARTEXT}right'],
        ...some(time).map((value) => `pwdFailureTime: ${value}`),
        ...some(time).map((value) => `pwdGraceUseTime: ${value}`),
        ...some(remembered).map((value) => `pwdHistory: ${value}`),
        `pwdLastSuccess: ${time()}`,
      ];
      return `dn: uid=${uid},${PEOPLE}\n${random.shuffle(lines).join('\n')}\n`;
    });
    const load = async (sandbox: Sandbox, ldif: string) => {
      const file = sandbox.path('restored.ldif');
      writeFileSync(file, ldif);
      await rowanDoes(['import', file, '--data', sandbox.data]);
    };
    const read = ({ data }: Sandbox) => rowanDoes(['export', ...UNDER, '--data', data]);
    await load(from, entries.join('\n'));
    const tries = Array.from({ length: 60 }, () => {
      return [`uid=${random.pick(uids)},${PEOPLE}`, random.pick(['right', 'right', 'wrong'])] as const;
    });
    await binds(from.data, tries);
    const first = await read(from);
    const restored = new Sandbox();
    await restored.init();
    await load(restored, first);
    const second = await read(restored);
    await restored.remove();
    expect(second.split('\n'), `ROWAN_SEED=${random.seed} repeats it`).to.deep.equal(first.split('\n'));
  });
});
