import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect } from 'chai';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { encodePlain } from '../../src/replica/wire.js';
import { ADA, ADMIN, heard, PASSWORD, PEOPLE, rowan, rowanDoes, Sandbox, SUFFIX, serve } from '../cli/rowan.js';
import { addPerson, personDn, read, replace } from '../cli/workers.js';
import { seq, str, tlv } from '../protocol/bytes.js';
import { needs } from '../require.js';
import { entryIn, RawClient } from '../server/raw-client.js';
import { contentOf, Machine } from './servers.js';

const POLICY = `cn=policy,${SUFFIX}`;

describe('replica: a second machine', () => {
  const sandbox = new Sandbox();
  const first = new Machine(sandbox, 'data');
  const second = new Machine(sandbox, 'second');
  let atFirst: RawClient;
  let atSecond: RawClient;

  before(async () => {
    await sandbox.initSample();
    const policy = `dn: ${POLICY}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: policy\npwdAttribute: userPassword\npwdLockout: TRUE\npwdMaxFailure: 3\n`;
    await rowanDoes(['import', '--data', first.data, '-'], { input: policy });
    await first.start('--passwords-policy', POLICY, '--audit-log-output', sandbox.path('audit.ldif'));
    await second.follow(first);
    await second.start('--passwords-policy', POLICY);
    atFirst = await first.client();
    atSecond = await second.client();
  });
  after(() => sandbox.remove());

  it('has all of the first one, secrets and change records included', async () => {
    expect(await contentOf(second.data)).to.equal(await contentOf(first.data));
    await second.catchesUp(first);
    expect(await first.status()).to.include('replica second: follows, 0 changes behind');
  });

  it('hands changes on with the rights of its client, who reads what is written', async () => {
    expect((await addPerson(atSecond, 'new', 'first')).code).to.equal(0);
    expect(await read(atSecond, personDn('new'), 'uid')).to.equal('new');
    const own = await second.client(personDn('new'), 'first');
    const foreign = { op: 'delete', dn: ADA } as const;
    expect((await own.request(foreign)).code).to.equal(50);
    for (let i = 0; i < 5; i++) {
      expect((await replace(atSecond, personDn('new'), 'description', `round ${i}`)).code).to.equal(0);
      expect(await read(atSecond, personDn('new'), 'description')).to.equal(`round ${i}`);
    }
    expect(await read(atFirst, personDn('new'), 'modifiersName')).to.equal(ADMIN);
    const rename = { op: 'modifyDN', dn: personDn('new'), newRdn: 'uid=newer', deleteOldRdn: true } as const;
    expect((await atSecond.request({ ...rename, newSuperior: undefined })).code).to.equal(0);
    expect((await atSecond.request({ op: 'delete', dn: personDn('newer') })).code).to.equal(0);
    expect((await atSecond.search(personDn('newer'))).code).to.equal(32);
    expect((await atFirst.search(personDn('newer'))).code).to.equal(32);
    own.close();
  });

  it('hands on controls of writes, also of long ones, and the audit log names both identities', async () => {
    await addPerson(atFirst, 'asked', 'first');
    const dn = personDn('asked');
    const numbers = Array.from({ length: 600 }, (_, i) => Buffer.from(`${i}`));
    const control = (oid: string, value?: Buffer) => ({ oid, critical: true, value });
    const as = (authzId: string) => control(ControlOid.proxiedAuthorization, Buffer.from(authzId));
    const asserted = (uid: string) => control(ControlOid.assertion, tlv(0xa3, str('uid'), str(uid)));
    const postRead = control(ControlOid.postRead, seq(str('telephoneNumber')));
    for (const client of [atFirst, atSecond]) {
      for (const values of [numbers.slice(0, 1), numbers]) {
        const changes = [{ operation: 'replace', attribute: { type: 'telephoneNumber', values } }] as const;
        const write = (...controls: ReturnType<typeof control>[]) =>
          client.request({ op: 'modify', dn, changes }, [postRead, ...controls]);
        const answer = await write(as(`dn:${ADMIN}`), asserted('asked'));
        expect(answer.code).to.equal(0);
        const written = entryIn(answer, ControlOid.postRead)!.attributes.get('telephoneNumber');
        expect(written).to.deep.equal(values);
        expect((await write(asserted('another'))).code).to.equal(122);
        expect((await write(as(`dn:${dn}`))).code).to.equal(50);
        expect((await write(control(ControlOid.noOp))).code).to.equal(16654);
      }
    }
    expect((await replace(atSecond, dn, 'description', 'x')).code).to.equal(0);
    const audit = readFileSync(sandbox.path('audit.ldif'), 'utf8');
    expect(audit.split(`# who: ${ADMIN}\n# as: ${ADMIN}\n`)).to.have.length(5);
  });

  it('refers a search that takes no copy to the primary, and hands such a compare on', async () => {
    const dontUseCopy = [{ oid: ControlOid.dontUseCopy, critical: true, value: undefined }];
    const many = Array.from({ length: 1000 }, () => ({ type: 'present', attribute: 'description' }) as const);
    for (const filter of [many[0]!, { type: 'or', filters: many } as const]) {
      const { code, final } = await atSecond.search(ADA, { filter }, dontUseCopy);
      expect(code).to.equal(10);
      expect(final.referrals).to.deep.equal([first.socketUrl]);
      expect((await atFirst.search(ADA, { filter }, dontUseCopy)).code).to.equal(0);
    }
    expect((await atSecond.search('', {}, dontUseCopy)).code).to.equal(0);
    const compare = { op: 'compare', dn: ADA, attribute: 'uid', value: Buffer.from('ada') } as const;
    for (const client of [atFirst, atSecond]) expect((await client.request(compare, dontUseCopy)).code).to.equal(6);
    const asserted = { oid: ControlOid.assertion, critical: true, value: tlv(0xa3, str('uid'), str('bram')) };
    expect((await atSecond.request(compare, [...dontUseCopy, asserted])).code).to.equal(122);
  });

  it('goes on with the bind of a client that changes its own password', async () => {
    await addPerson(atSecond, 'own', 'first');
    const own = await second.client(personDn('own'), 'first');
    expect((await replace(own, personDn('own'), 'userPassword', 'second')).code).to.equal(0);
    expect(await read(own, personDn('own'), 'uid')).to.equal('own');
    own.close();
    await (await second.client(personDn('own'), 'second')).close();
    await (await first.client(personDn('own'), 'second')).close();
  });

  it('counts failed binds at the primary, and tells of the lock at once', async () => {
    await addPerson(atFirst, 'guessed', 'right');
    const tries = await second.client();
    for (let i = 0; i < 3; i++) expect(await tries.bind(personDn('guessed'), 'wrong')).to.equal(49);
    expect(await tries.bind(personDn('guessed'), 'right')).to.equal(49);
    const elsewhere = await first.client();
    expect(await elsewhere.bind(personDn('guessed'), 'right')).to.equal(49);
    tries.close();
    elsewhere.close();
  });

  it('refuses to begin a transaction', async () => {
    const { final } = await atSecond.request({ op: 'extended', oid: ExtendedOid.startTransaction, value: undefined });
    expect([final.code, final.message]).to.deep.equal([
      53,
      'this server is a replica; begin the transaction at its primary',
    ]);
  });

  it('refuses commands that would change it', async () => {
    const history = await rowanDoes(['history', personDn('guessed'), '--format', 'json', '--data', second.data]);
    const { number } = JSON.parse(history.trim().split('\n').at(-1)!) as { number: number };
    const text = `this is a replica of ${first.socketUrl}: commands that change the directory run there; clients may try again`;
    for (const [args, said] of [
      [['number', 'set', 'uidNumber', '1', '9'], `rowan: ${text}\n`],
      [['undo', String(number)], `rowan: change ${number} cannot be undone: ${text} (unavailable)\n`],
    ] as const) {
      const { code, stderr } = await rowan([...args, '--data', second.data]);
      expect([code, stderr]).to.deep.equal([1, said]);
    }
  });

  it('reads and binds go on while the primary is away; failed binds are handed on afterwards', async () => {
    await addPerson(atFirst, 'away', 'right');
    await second.catchesUp(first);
    await first.stop();
    await second.says('is not reached since');
    const refused = await replace(atSecond, ADA, 'description', 'away');
    expect(refused.code).to.equal(52);
    expect(refused.final.message).to.match(/^the primary is not reached since \d{4}-.*: ldapi:/);
    const tries = await second.client(personDn('away'), 'right');
    for (let i = 0; i < 3; i++) expect(await tries.bind(personDn('away'), 'wrong')).to.equal(49);
    expect(await tries.bind(personDn('away'), 'right')).to.equal(49);
    tries.close();
    await first.start('--passwords-policy', POLICY);
    atFirst = await first.client();
    const elsewhere = await first.client();
    // The states are handed on before the first change goes through.
    while ((await replace(atSecond, ADA, 'description', 'back')).code === 52);
    expect(await elsewhere.bind(personDn('away'), 'right')).to.equal(49);
    elsewhere.close();
    await second.catchesUp(first);
    expect(await contentOf(second.data)).to.equal(await contentOf(first.data));
  });

  it('a copy of its data alone is no primary until it is promoted', async () => {
    await second.stop();
    const copy = sandbox.path('copy');
    mkdirSync(copy);
    for (const name of ['rowan.json', 'data.mdb']) copyFileSync(join(second.data, name), join(copy, name));
    await second.start('--passwords-policy', POLICY);
    for (const args of [
      ['serve', '--listen', 'ldap://127.0.0.1:0'],
      ['number', 'set', 'uidNumber', '1', '9'],
    ]) {
      const { code, stderr } = await rowan([...args, '--data', copy]);
      expect([code, stderr]).to.deep.equal([
        1,
        `rowan: ${copy} has the data of a replica, and no replica.json: "rowan promote" makes it the primary of a new term; otherwise copy into an empty folder ("rowan replica init")\n`,
      ]);
    }
    expect(await contentOf(copy)).to.equal(await contentOf(second.data));
    expect(await rowanDoes(['promote', '--data', copy])).to.contain('primary of term 2');
    await rowanDoes(['number', 'set', 'uidNumber', '1', '9', '--data', copy]);
    rmSync(join(copy, 'replica.json'));
    expect((await rowan(['promote', '--data', copy])).stderr).to.contain('is the primary already');
  });

  it('catches up after a stop, with indexes that were made meanwhile and a subtree that was renamed', async () => {
    await second.stop();
    expect(
      (
        await atFirst.request({
          op: 'modifyDN',
          dn: PEOPLE,
          newRdn: 'ou=staff',
          deleteOldRdn: true,
          newSuperior: undefined,
        })
      ).code,
    ).to.equal(0);
    await rowanDoes(['index', 'add', 'description', '--data', first.data]);
    // What is removed from an index between its drop and its return is in no log.
    await rowanDoes(['index', 'drop', 'mail', '--data', first.data]);
    await replace(atFirst, 'uid=ada,ou=staff,dc=example,dc=com', 'mail', 'changed@example.com');
    await rowanDoes(['index', 'add', 'mail', '--substring', '--data', first.data]);
    await second.start('--passwords-policy', POLICY);
    await second.catchesUp(first);
    expect(await contentOf(second.data)).to.equal(await contentOf(first.data));
    expect(await rowanDoes(['index', 'list', '--data', second.data])).to.equal(
      await rowanDoes(['index', 'list', '--data', first.data]),
    );
    for (const { data } of [first, second])
      expect(await rowanDoes(['check', '--data', data])).to.include('no breach found');
  });

  it('takes over access rules, an index and a schema of the primary while both serve', async () => {
    const [rules, folder] = [sandbox.path('rules.yaml'), sandbox.path('schema')];
    writeFileSync(
      rules,
      'rules:\n- { name: names, who: {}, to: { attributes: [entry, objectClass] }, allow: [view] }\n',
    );
    mkdirSync(folder);
    const badge = "( 1.3.6.1.4.1.99999.1 NAME 'badge' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    writeFileSync(sandbox.path('schema/site.ldif'), `dn: cn=schema\nattributeTypes: ${badge}\n`);
    const anonymous = await RawClient.open(second.server.port);
    const ada = 'uid=ada,ou=staff,dc=example,dc=com';
    expect((await anonymous.search(ada)).entries).to.deep.equal([]);
    await rowanDoes(['access', 'apply', rules, '--data', first.data]);
    await rowanDoes(['index', 'add', 'roomNumber', '--data', first.data]);
    await rowanDoes(['schema', 'set', '--data', first.data, '--schema-folders', folder]);
    await second.catchesUp(first);
    while ((await anonymous.search(ada)).entries.length === 0);
    anonymous.close();
    for (const words of [['index', 'list'], ['access', 'show'], ['schema', 'show'], ['check']]) {
      const [ours, theirs] = [first, second].map(({ data }) => rowanDoes([...words, '--data', data]));
      expect(await theirs, words.join(' ')).to.equal(await ours);
    }
  });

  it('is another row when a second server follows with its name, and the log of the primary warns', async () => {
    const third = new Machine(sandbox, 'third');
    const access = ['--name', 'second', '--password-file', sandbox.path('second.password')];
    const warned = heard(first.server.process, 'two connections follow with one name');
    await rowanDoes(['replica', 'init', '--data', third.data, '--of', first.socketUrl, ...access]);
    await third.start();
    await warned;
    await first.says('replica second (2): follows, 0 changes behind');
    expect(await first.status()).to.include('replica second: follows, 0 changes behind');
    await third.stop();
    while ((await first.status()).includes('(2)'));
    expect(await first.status()).to.include('replica second: follows, 0 changes behind');
  });

  it('a full disk of its own is no fault of the primary', async function () {
    needs(this, 'small-disk');
    await second.stop();
    const disk = sandbox.path('disk');
    mkdirSync(disk);
    const node = sandbox.path('on-small-disk');
    const inside = [
      `mount -t tmpfs -o size=${12 << 20} tmpfs "$DISK" && cp -r "$DISK/../second" "$DISK/second"`,
      `head -c ${8 << 20} /dev/zero > "$DISK/filler"; exec "$NODE" "$@"`,
    ].join(' && ');
    writeFileSync(node, `#!/bin/sh\nexec unshare -rm sh -c '${inside}' sh "$@"\n`, { mode: 0o700 });
    const server = await serve(join(disk, 'second'), [], { node, env: { DISK: disk, NODE: process.execPath } });
    const said = heard(server.process, 'changes of the primary are not applied here');
    const photo = 'x'.repeat(2_500_000);
    for (let i = 0; i < 4; i++) await replace(atFirst, SUFFIX, 'description', `${i}${photo}`);
    expect(await said).not.to.contain('is not reached');
    await server.stop();
    await replace(atFirst, SUFFIX, 'description', 'short');
    await second.start('--passwords-policy', POLICY);
  });

  it('a session that bound before the grant was revoked, or its password replaced, may do nothing more', async () => {
    const password = sandbox.path('leaked.password');
    const grant = ['replica', 'grant', 'leaked', '--data', first.data, '--password-file', password];
    await rowanDoes(grant);
    const path = decodeURIComponent(first.socketUrl.slice('ldapi://'.length));
    const session = new RawClient(connect(path));
    expect(await session.bind('cn=leaked,cn=replicas', readFileSync(password, 'utf8').trim())).to.equal(0);
    const ask = async (oid: string, value: Buffer): Promise<number> =>
      (await session.request({ op: 'extended', oid, value })).code;
    const terms = [{ term: 9, id: 'ab', start: 1n }];
    const state = encodePlain({ position: 0n, terms: [], ask: 'state' });
    expect(await ask(ExtendedOid.replicate, state)).to.equal(0);
    const requests: [string, Buffer][] = [
      [ExtendedOid.replicate, state],
      [ExtendedOid.replicate, encodePlain({ position: 0n, terms, ask: 'state' })],
      [ExtendedOid.replicate, encodePlain({ position: 0n, terms: [], copy: {} })],
      [ExtendedOid.replicate, encodePlain({ position: 0n, terms: [], entries: [] })],
      [ExtendedOid.replicate, encodePlain({ position: 0n, terms: [] })],
      [ExtendedOid.replicated, Buffer.from('1')],
      [ExtendedOid.handOn, encodePlain([])],
      [ExtendedOid.forward, Buffer.alloc(0)],
    ];
    await rowanDoes(['replica', 'revoke', 'leaked', '--data', first.data]);
    for (const [oid, value] of requests) expect(await ask(oid, value)).to.equal(50);
    rmSync(password);
    const may = `leaked may follow this directory, with the password in ${password}`;
    expect(await rowanDoes(grant)).to.equal(`${may}\n`);
    expect(await rowanDoes(grant)).to.equal(`${may}; an earlier password is not valid any more\n`);
    for (const [oid, value] of requests) expect(await ask(oid, value)).to.equal(50);
    session.close();
    expect((await replace(atFirst, SUFFIX, 'description', 'not fenced')).code).to.equal(0);
  });

  it('follows no longer without the grant', async () => {
    await rowanDoes(['replica', 'revoke', 'second', '--data', first.data]);
    await second.says('is not reached since');
    expect(PASSWORD).not.to.equal('');
  });
});
