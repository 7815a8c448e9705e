import { expect } from 'chai';
import * as rowan from '../src/index.js';

describe('public names', () => {
  it('are these, and a change of them is meant', () => {
    expect(Object.keys(rowan).sort()).to.deep.equal([
      'LdapError',
      'LdifParser',
      'Partition',
      'ResultCode',
      'RowanServer',
      'Schema',
      'SchemaError',
      'StoreError',
      'formatEntry',
      'formatFilter',
      'hashPassword',
      'initDirectory',
      'isHashed',
      'makeConfig',
      'mount',
      'openLmdbStore',
      'openMemoryStore',
      'openSchema',
      'parseFilter',
      'readLdif',
      'resultName',
      'verifyPassword',
    ]);
  });

  it('are enough to make a directory and read it', async () => {
    const schema = rowan.Schema.load();
    const store = rowan.openMemoryStore();
    const adminPassword = await rowan.hashPassword(Buffer.from('secret'));
    await rowan.initDirectory(store, { suffixes: ['dc=example,dc=com'], adminDn: 'cn=admin', adminPassword }, schema);
    const partition = await rowan.Partition.open(store, schema);
    const text = (value: string) => Buffer.from(value);
    const dn = schema.parseDn('dc=example,dc=com');
    const attributes = [
      { type: 'objectClass', values: [text('organization'), text('dcObject')] },
      { type: 'dc', values: [text('example')] },
      { type: 'o', values: [text('Example')] },
    ];
    await partition.add(dn, attributes, { dn: 'cn=admin' });
    const entry = await partition.read(dn);
    expect(entry.attributes.find((one) => one.description === 'o')?.values.map(String)).to.deep.equal(['Example']);
    await partition.close();
  });
});
