import { expect } from 'chai';
import {
  type ApplicationPasswordsRequest,
  decodeApplicationPasswords,
  encodeAddedPassword,
  encodeListedPasswords,
} from '../../src/protocol/extended/application-passwords.js';
import { decodeAddedPassword, encodeApplicationPasswords } from './client-values.js';

const REQUESTS: readonly ApplicationPasswordsRequest[] = [
  { action: 'list', entry: undefined },
  { action: 'list', entry: 'uid=ada' },
  { action: 'remove', entry: undefined, name: 'imap' },
  {
    action: 'add',
    entry: 'uid=ada',
    name: 'imap',
    networks: '10.0.0.0/8',
    usedBy: 'cn=mail',
    expires: '20300101000000Z',
  },
  { action: 'add', entry: undefined, name: 'ü', networks: undefined, usedBy: undefined, expires: undefined },
];

describe('protocol: application passwords', () => {
  it('application password requests are encoded and decoded, and refused when truncated anywhere', () => {
    for (const request of REQUESTS) {
      const bytes = encodeApplicationPasswords(request);
      expect(decodeApplicationPasswords(bytes)).to.deep.equal(request);
      for (let length = 0; length < bytes.length; length++)
        expect(() => decodeApplicationPasswords(bytes.subarray(0, length))).to.throw(/application passwords/);
    }
  });

  it('application password requests with fields that do not belong together are refused', () => {
    for (const hex of ['30060a01018101 61', '30060a01018201 61', '30030a0102', '30030a0100', '30060a01008101ff'])
      expect(() => decodeApplicationPasswords(Buffer.from(hex.replaceAll(' ', ''), 'hex')), hex).to.throw();
  });

  it('application password responses are encoded as docs/server.md says', () => {
    expect(decodeAddedPassword(encodeAddedPassword('abc'))).to.equal('abc');
    expect(encodeAddedPassword('abc').toString('hex')).to.equal('30058003616263');
    const listed = encodeListedPasswords([{ name: 'a', networks: 'n', created: 'c', lastUse: 'l' }]);
    expect(listed.toString('hex')).to.equal('300e300c81016182016e85016386016c');
    expect(encodeListedPasswords([]).toString('hex')).to.equal('3000');
  });
});
