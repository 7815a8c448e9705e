import { trace } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { expect } from 'chai';
import { ADMIN, CHEAP, PEOPLE, personDn, start } from './directory.js';
import { RawClient } from './raw-client.js';

describe('spans of OpenTelemetry', () => {
  afterEach(() => trace.disable());

  it('are made of operations where the program has registered a provider', async () => {
    const exporter = new InMemorySpanExporter();
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
    const running = await start(CHEAP, 3);
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    const filter = { type: 'equal', attribute: 'userPassword', value: Buffer.from('secret') } as const;
    await client.search(PEOPLE, { scope: 'one' });
    await client.search(PEOPLE, { scope: 'sub', filter });
    await client.request({ op: 'delete', dn: personDn('nobody') });
    const spans = exporter.getFinishedSpans();
    expect(spans.map(({ name }) => name)).to.deep.equal(['LDAP bind', 'LDAP search', 'LDAP search', 'LDAP delete']);
    expect(spans[1]!.attributes).to.include({
      'ldap.operation': 'search',
      'ldap.result': 'success',
      'ldap.target': PEOPLE,
      'ldap.scope': 'one',
      'ldap.entries': 3,
      'client.address': '127.0.0.1',
    });
    expect(spans[2]!.attributes['ldap.filter']).to.equal('(userPassword=hidden)');
    expect(spans[3]!.attributes).to.include({ 'ldap.result': 'noSuchObject', 'ldap.target': personDn('nobody') });
    expect(JSON.stringify(spans.map(({ attributes }) => attributes))).not.to.contain(ADMIN.password);
    for (const { startTime, endTime, parentSpanContext } of spans) {
      expect(startTime[0] * 1e9 + startTime[1]).to.be.at.most(endTime[0] * 1e9 + endTime[1]);
      expect(parentSpanContext).to.equal(undefined);
    }
    client.close();
    await running.stop();
    expect(running.server.services.observation.isActive).to.equal(false);
  });

  it('cost nothing where there is no provider: nothing observes', async () => {
    const running = await start(CHEAP);
    expect(running.server.services.observation.isActive).to.equal(false);
    await running.stop();
  });
});
