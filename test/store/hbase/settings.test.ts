import { expect } from 'chai';
import { type HBaseOptions, hbaseSettings } from '../../../src/store/hbase/settings.js';
import { siteProperties, siteSettings } from '../../../src/store/hbase/site-file.js';
import { StoreError } from '../../../src/store/store-error.js';

function property(name: string, value: string): string {
  return `<property><name>${name}</name><value>${value}</value></property>`;
}

function fault(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof StoreError && error.code === 'format') return error.message;
    throw error;
  }
  return 'none';
}

describe('HBase settings', () => {
  const read = (url: string, more: Partial<HBaseOptions> = {}) => hbaseSettings({ url, ...more });

  it('come from the URL', () => {
    expect(read('hbase://127.0.0.1:26000')).to.include({
      namespace: 'default',
      prefix: 'rowan_',
      restUrl: 'http://127.0.0.1:18080',
      durability: 'default',
      operationTimeoutMs: 30_000,
    });
    expect(read('hbase://a:16000,b,[::1]:5/acme').masters).to.deep.equal(['a:16000', 'b:16000', '[::1]:5']);
    expect(read('hbase://a/acme')).to.include({ namespace: 'default', prefix: 'acme_', restUrl: 'http://a:8080' });
    expect(read('hbase://a/ldap:acme')).to.include({ namespace: 'ldap', prefix: 'acme_' });
    expect(read('hbase://a/ldap:')).to.include({ namespace: 'ldap', prefix: '' });
    expect(read('hbase://a:1/x?rest=b:2').restUrl).to.equal('http://b:2');
    expect(read('hbase://a:1/x').restUrl).to.equal(undefined);
    expect(read('hbase://a', { rest: 'none' }).restUrl).to.equal(undefined);
    expect(read('hbase://a', { rest: 'https://gate:8443/hbase/' }).restUrl).to.equal('https://gate:8443/hbase');
  });

  it('know whether the address of the gateway was guessed', () => {
    expect(read('hbase://a')).to.include({ restUrl: 'http://a:8080', isRestUrlGuessed: true });
    expect(read('hbase://a?rest=b:2').isRestUrlGuessed).to.equal(false);
    expect(read('hbase://a', { rest: 'http://b:2' }).isRestUrlGuessed).to.equal(false);
  });

  it('name what cannot be understood', () => {
    expect(fault(() => read('hbase://'))).to.match(/^no HBase master is named/);
    expect(fault(() => read('hbase://a:99999'))).to.equal(
      '"a:99999" is no address of an HBase master: HOST:PORT is needed',
    );
    expect(fault(() => read('hbase://a b'))).to.include('"a b" is no address');
    expect(fault(() => read('hbase://a/x/y'))).to.include('"x/y" cannot begin the names');
    expect(fault(() => read('hbase://a/.x'))).to.include('".x" cannot begin the names');
    expect(fault(() => read('hbase://a/n-s:x'))).to.include('"n-s" is no name of an HBase namespace');
    expect(fault(() => read('hbase://a?user=x'))).to.include('is no HBase address');
    expect(fault(() => read('hbase://a', { rest: 'ftp://x' }))).to.include('is no address of an HBase REST gateway');
  });

  it('come from an hbase-site.xml', () => {
    const site = `<?xml version="1.0"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- <property><name>hbase.rpc.timeout</name><value>1</value></property> -->
<configuration>
  <property>
    <name>hbase.masters</name>
    <value>m1.\${domain}:16001, m2.\${domain}</value>
    <description>with &lt;markup&gt;</description><final>true</final>
  </property>
  ${property('domain', 'example.<![CDATA[com]]>')}
  ${property('hbase.master.port', '16005')}
  ${property('hbase.rpc.timeout', ' 7000 ')}
  ${property('hbase.client.scanner.timeout.period', '45000')}
  ${property('hbase.client.pause', '50')}
  ${property('hbase.rest.port', '8085')}
  ${property('other', 'a &amp; b &#x41;&#66; $' + '{missing}')}
  <property><name>empty</name><value/></property>
</configuration>
`;
    expect(read('hbase:///acme', { site: siteSettings(site) })).to.include({
      rpcTimeoutMs: 7000,
      scannerTimeoutMs: 45_000,
      retryPauseMs: 50,
      operationTimeoutMs: 30_000,
      restUrl: 'http://m1.example.com:8085',
    });
    expect(read('hbase:///acme', { site: siteSettings(site) }).masters).to.deep.equal([
      'm1.example.com:16001',
      'm2.example.com:16005',
    ]);
    expect(read('hbase://x:1', { site: siteSettings(site) }).masters).to.deep.equal(['x:1']);
    const properties = siteProperties(site);
    expect(properties.get('other')).to.equal('a & b AB $' + '{missing}');
    expect(properties.get('empty')).to.equal('');
  });

  it('name the line of what is wrong in the file', () => {
    const inFile = (body: string) => fault(() => siteSettings(`<configuration>\n${body}\n</configuration>`));
    expect(inFile(property('hbase.rpc.timeout', 'soon'))).to.equal(
      'hbase-site.xml: hbase.rpc.timeout must be 1 to 3600000, not "soon"',
    );
    expect(inFile(property('a', `\${b}`) + property('b', `\${a}`) + property('hbase.masters', `\${a}`))).to.match(
      /hbase.masters refers to itself/,
    );
    expect(inFile(property('hbase.security.authentication', 'kerberos'))).to.match(/is kerberos; Rowan speaks simple/);
    expect(inFile('<property><value>x</value></property>')).to.equal(
      'hbase-site.xml: line 2: a property without a name',
    );
    expect(inFile('<property><name>x</property>')).to.match(/line 2: unexpected close tag/);
    expect(inFile('loose')).to.match(/line 3: text outside of name and value/);
    expect(inFile('<xi:include href="/etc/passwd"/>')).to.match(/line 2: <xi:include.* is not understood/);
    expect(inFile('<property><name>a &nbsp; b</name></property>')).to.match(/line 2: undefined entity/);
    expect(inFile('<property><name>a & b</name></property>')).to.match(/unclosed tag: name/);
    expect(fault(() => siteSettings('<!DOCTYPE x [<!ENTITY a "b">]><configuration/>'))).to.match(
      /a DOCTYPE is not understood/,
    );
    expect(fault(() => siteSettings('<configuration>'))).to.match(/line 1: unclosed tag: configuration/);
    expect(fault(() => siteSettings('<configuration><!-- '))).to.match(/line 1: unclosed tag/);
    expect(fault(() => siteSettings('x'.repeat(2 ** 21)))).to.match(/characters are no configuration/);
    const many = Array.from({ length: 10_001 }, (_, i) => property(`p${i}`, '')).join('');
    expect(inFile(many)).to.match(/more than 10000 properties/);
    const doubling = Array.from({ length: 19 }, (_, i) => property(`d${i}`, `\${d${i + 1}}\${d${i + 1}}`.repeat(8)));
    expect(inFile([...doubling, property('d19', 'x'), property('hbase.masters', `\${d0}`)].join(''))).to.match(
      /too long/,
    );
  });
});
