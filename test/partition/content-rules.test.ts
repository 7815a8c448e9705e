import { expect } from 'chai';
import { Schema } from '../../src/schema/index.js';
import { attributes, change, openFixture, refused, SUFFIX, SYSTEM } from './fixture.js';

const TEXT = "dITContentRules: ( 2.5.6.14 NAME 'deviceContent' AUX uidObject MUST serialNumber NOT l )\n";
const DEVICE = `cn=one,${SUFFIX}`;
const entry = { objectClass: 'device', cn: 'one', serialNumber: '1' };

describe('a DIT content rule', () => {
  it('is obeyed by entries that are added, modified and loaded', async () => {
    const schema = Schema.of({ nis: 'rfc2307', files: [{ name: 'own.ldif', text: TEXT }] });
    const fixture = await openFixture('memory', { schema });
    const precludes = /content rule of 'device' precludes attribute 'l'/;
    await refused('objectClassViolation', fixture.add(DEVICE, { ...entry, l: 'here' }), precludes);
    await refused('objectClassViolation', fixture.add(DEVICE, { objectClass: 'device', cn: 'one' }), /serialNumber/);
    await fixture.add(DEVICE, entry);
    await refused('objectClassViolation', fixture.modify(DEVICE, change('add', 'l', 'here')), precludes);
    await refused(
      'objectClassViolation',
      fixture.modify(DEVICE, change('delete', 'serialNumber')),
      /requires attribute/,
    );
    const url = change('add', 'objectClass', 'labeledURIObject');
    await refused('objectClassViolation', fixture.modify(DEVICE, url), /does not list .* 'labeledURIObject'/);
    await fixture.modify(DEVICE, change('add', 'objectClass', 'uidObject'), change('add', 'uid', 'one'));

    const reasons: string[] = [];
    async function* entries() {
      const two = attributes({ ...entry, cn: 'two', l: 'here' });
      yield [{ line: 1, dn: `cn=two,${SUFFIX}`, attributes: two }];
    }
    const onReject = ({ reason }: { reason: string }) => void reasons.push(reason);
    await fixture.partition.load(entries(), SYSTEM, { continue: true, onReject });
    expect(reasons).to.have.length(1);
    expect(reasons[0]).to.match(precludes);
    await fixture.expectClean();
    await fixture.close();
  });
});
