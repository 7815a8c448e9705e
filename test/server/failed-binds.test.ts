import { expect } from 'chai';
import { pino } from 'pino';
import { FailedBinds } from '../../src/server/services/failed-binds.js';
import { clientNetwork } from '../../src/server/words/network.js';
import { StoppedClock } from './clock.js';
import { testSchema } from './directory.js';

describe('the log of failed binds', () => {
  it('has each address although others fail by the thousand, and no secret that was typed as a name', () => {
    using clock = new StoppedClock();
    const lines: { address?: string; dn?: string; leftOut?: number }[] = [];
    const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const failedBinds = new FailedBinds(testSchema(), log);
    const fail = (address: string, dn: string): void =>
      failedBinds.report(
        { transport: { address, network: clientNetwork(address) }, session: { connectionNumber: 1 } },
        dn,
        'wrong password',
      );
    for (let i = 0; i < 2000; i++) fail('192.0.2.1', `uid=u${i}`);
    fail('192.0.2.2', 'userPassword=SECRET,dc=example,dc=com');
    fail('192.0.2.3', 'SECRET');
    expect(lines.filter(({ address }) => address === '192.0.2.1').length).to.equal(20);
    expect(lines.slice(-2).map(({ address, dn }) => [address, dn])).to.deep.equal([
      ['192.0.2.2', 'userPassword=hidden,dc=example,dc=com'],
      ['192.0.2.3', 'hidden'],
    ]);
    clock.pass(1000);
    fail('192.0.2.1', 'uid=ada');
    expect(lines.at(-2)!.leftOut).to.equal(1980);
    expect(lines.at(-1)).to.include({ address: '192.0.2.1', dn: 'uid=ada' });
    fail('192.0.2.2', `cn=${'\\2c'.repeat(5_000_000)}`);
    expect(lines.at(-1)!.dn).to.have.length.below(50_000);
  });
});
