import { expect } from 'chai';
import { ADMIN, PASSWORD, rowan, rowanDoes, SUFFIX, serve } from '../cli/rowan.js';
import { soakTest } from '../rounds.js';
import { RawClient } from '../server/raw-client.js';
import { freshPrefix, hbase } from './server.js';

const POLICY = `cn=policy,${SUFFIX}`;
const UID = `uid=ada,${SUFFIX}`;
const LDIF = `dn: ${SUFFIX}
objectClass: domain
dc: example

dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdMaxAge: 1000000
pwdGraceAuthNLimit: 0

dn: ${UID}
objectClass: inetOrgPerson
uid: ada
cn: ada
sn: ada
userPassword: right
pwdPolicySubentry: ${POLICY}
`;

describe('accounts over HBase', () => {
  soakTest('must-change and expire by command count at a server that runs', async function () {
    const store = ['--store', (await hbase(this)).url(freshPrefix())];
    const init = ['init', ...store, '--suffix', SUFFIX, '--admin-dn', ADMIN, '--hbase-regions', '1'];
    await rowanDoes(init, { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
    await rowanDoes(['import', ...store, '-'], { input: LDIF });
    const server = await serve(store[1]!);
    const open = await RawClient.open(server.port);
    expect(await open.bind(UID, 'right')).to.equal(0);
    expect(await rowanDoes(['account', 'must-change', UID, ...store])).to.match(/has to be changed\n$/);
    expect((await open.search(UID, { scope: 'base' })).code, 'of the session that was open').to.equal(50);
    const client = await RawClient.open(server.port);
    expect(await client.bind(UID, 'right')).to.equal(0);
    const attribute = { type: 'userPassword', values: [Buffer.from('another')] };
    const change = { op: 'modify', dn: UID, changes: [{ operation: 'replace', attribute }] } as const;
    expect((await client.request(change)).code).to.equal(0);
    expect((await client.search(UID, { scope: 'base' })).code).to.equal(0);
    expect(await rowanDoes(['account', 'expire', UID, ...store])).to.match(/has expired\n$/);
    const answer = await client.search(UID, { scope: 'base' }).catch(() => undefined);
    expect(answer?.code ?? 8).to.equal(8);
    const late = await RawClient.open(server.port);
    expect(await late.bind(UID, 'another')).to.equal(49);
    expect((await rowan(['account', 'show', UID, ...store])).stdout).to.match(/password expired 1970/);
    for (const one of [open, client, late]) one.close();
    await server.stop();
  });
});
