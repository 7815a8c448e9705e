import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { parse, plain } from './helpers.js';

/** The examples of RFC 2849, shortened where they repeat themselves. */
describe('LDIF: the examples of RFC 2849', () => {
  it('RFC 2849 example 1 is read: a simple file with two entries', () => {
    const text = `version: 1
dn: cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com
objectclass: top
objectclass: person
cn: Barbara Jensen
cn: Babs Jensen
sn: Jensen
description: A big sailing fan.

dn: cn=Bjorn Jensen, ou=Accounting, dc=airius, dc=com
objectclass: top
telephonenumber: +1 408 555 1212
`;
    expect(parse(text).map(plain)).to.deep.equal([
      {
        kind: 'content',
        dn: 'cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com',
        attributes: [
          { type: 'objectclass', values: ['top', 'person'] },
          { type: 'cn', values: ['Barbara Jensen', 'Babs Jensen'] },
          { type: 'sn', values: ['Jensen'] },
          { type: 'description', values: ['A big sailing fan.'] },
        ],
      },
      {
        kind: 'content',
        dn: 'cn=Bjorn Jensen, ou=Accounting, dc=airius, dc=com',
        attributes: [
          { type: 'objectclass', values: ['top'] },
          { type: 'telephonenumber', values: ['+1 408 555 1212'] },
        ],
      },
    ]);
  });

  it('RFC 2849 examples 2 and 3 are read: folded and base64 values', () => {
    const text = `version: 1
dn:cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com
cn:Barbara Jensen
description:Babs is a big sailing fan, and travels extensively in sea
 rch of perfect sailing conditions.
title:Product Manager, Rod and Reel Division

dn: cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com
description:: V2hhdCBhIGNhcmVmdWwgcmVhZGVyIHlvdSBhcmUhICBUaGlzIHZhbHVlIGlzIGJhc2UtNjQtZW5jb2RlZCBiZWNhdXNlIGl0IGhhcyBhIGNvbnRyb2wgY2hhcmFjdGVyIGluIGl0IChhIENSKS4NICBCeSB0aGUgd2F5LCB5b3Ugc2hvdWxkIHJlYWxseSBnZXQgb3V0IG1vcmUu
`;
    expect(parse(text).map(plain)).to.deep.equal([
      {
        kind: 'content',
        dn: 'cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com',
        attributes: [
          { type: 'cn', values: ['Barbara Jensen'] },
          {
            type: 'description',
            values: ['Babs is a big sailing fan, and travels extensively in search of perfect sailing conditions.'],
          },
          { type: 'title', values: ['Product Manager, Rod and Reel Division'] },
        ],
      },
      {
        kind: 'content',
        dn: 'cn=Gern Jensen, ou=Product Testing, dc=airius, dc=com',
        attributes: [
          {
            type: 'description',
            values: [
              'What a careful reader you are!  This value is base-64-encoded because it has a control character in it (a CR).\r  By the way, you should really get out more.',
            ],
          },
        ],
      },
    ]);
  });

  it('RFC 2849 example 4 is read: UTF-8 DNs in base64, attribute options, comments', () => {
    const text = `version: 1
dn:: b3U95Za25qWt6YOoLG89QWlyaXVz
# dn:: ou=<JapaneseOU>,o=Airius
objectclass: top
ou:: 5Za25qWt6YOo
# ou:: <JapaneseOU>
ou;lang-ja:: 5Za25qWt6YOo
# a comment that is
  folded
ou;lang-en: Sales
`;
    const [record] = parse(text);
    expect(record).to.include({ kind: 'content', dn: 'ou=営業部,o=Airius', line: 2 });
    expect(
      record?.kind === 'content' && record.attributes.map(({ type, values }) => [type, String(values[0])]),
    ).to.deep.equal([
      ['objectclass', 'top'],
      ['ou', '営業部'],
      ['ou;lang-ja', '営業部'],
      ['ou;lang-en', 'Sales'],
    ]);
  });

  it('RFC 2849 example 5 is read only if values from files are allowed', () => {
    const folder = mkdtempSync(join(tmpdir(), 'rowan-ldif-'));
    const photo = join(folder, 'photo.jpg');
    writeFileSync(photo, 'JPEG\n');
    const text = `dn: cn=Horatio Jensen\ncn: Horatio Jensen\njpegphoto:< ${pathToFileURL(photo)}\n`;
    const reason = (options: Parameters<typeof parse>[1], input = text): string => {
      const [record] = parse(input, options);
      return record?.kind === 'error' ? record.reason : JSON.stringify(plain(record!));
    };
    try {
      expect(reason({})).to.equal('line 3: a value from a URL (":<"); these are refused unless allowed (--allow-urls)');
      expect(reason({ allowUrls: () => false })).to.equal('line 3: the URL is not among those allowed');
      expect(reason({ allowUrls: (url) => url.pathname.endsWith('.jpg') })).to.include(
        '"jpegphoto","values":["JPEG\\n"]',
      );
      expect(reason({ allowUrls: () => true, maxRecordBytes: 200 }, text.replace('photo.jpg', ''))).to.match(
        /no regular file/,
      );
      expect(reason({ allowUrls: () => true }, text.replace('photo.jpg', 'none.jpg'))).to.match(
        /cannot be read \(ENOENT\)/,
      );
      expect(reason({ allowUrls: () => true }, text.replace(/file:/, 'http:'))).to.match(/only file: can be read/);
      writeFileSync(photo, Buffer.alloc(300));
      expect(reason({ allowUrls: () => true, maxRecordBytes: 200 })).to.match(/file has 300 bytes; 200 is the most/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('RFC 2849 examples 6 and 7 are read: change records and controls', () => {
    const text = `version: 1
# Add a new entry
dn: cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com
changetype: add
objectclass: top
objectclass: person
sn: Jensen

# Delete an existing entry
dn: cn=Robert Jensen, ou=Marketing, dc=airius, dc=com
changetype: delete

# Modify an entry's relative distinguished name
dn: cn=Paul Jensen, ou=Product Development, dc=airius, dc=com
changetype: modrdn
newrdn: cn=Paula Jensen
deleteoldrdn: 1

# Rename an entry and move all of its children
dn: ou=PD Accountants, ou=Product Development, dc=airius, dc=com
changetype: moddn
newrdn:: b3U9UEQ=
deleteoldrdn: 0
newsuperior: ou=Accounting, dc=airius, dc=com

# Modify an entry
dn: cn=Paula Jensen, ou=Product Development, dc=airius, dc=com
changetype: modify
add: postaladdress
postaladdress: 123 Anystreet $ Sunnyvale, CA $ 94086
-
delete: description
-
replace: telephonenumber
telephonenumber: +1 408 555 1234
telephonenumber: +1 408 555 5678
-
increment: uidNumber
uidNumber: 1
-
delete: facsimiletelephonenumber
facsimiletelephonenumber: +1 408 555 9876
-

dn: ou=Product Development, dc=airius, dc=com
control: 1.2.840.113556.1.4.805 true
control: 1.2.3 false: text
control: 1.2.4:: AAE=
control: 1.2.5
changetype: delete
`;
    const controls: unknown[] = [];
    expect(parse(text).map(plain)).to.deep.equal([
      {
        kind: 'add',
        dn: 'cn=Fiona Jensen, ou=Marketing, dc=airius, dc=com',
        controls,
        attributes: [
          { type: 'objectclass', values: ['top', 'person'] },
          { type: 'sn', values: ['Jensen'] },
        ],
      },
      { kind: 'delete', dn: 'cn=Robert Jensen, ou=Marketing, dc=airius, dc=com', controls },
      {
        kind: 'modrdn',
        dn: 'cn=Paul Jensen, ou=Product Development, dc=airius, dc=com',
        controls,
        newRdn: 'cn=Paula Jensen',
        deleteOldRdn: true,
      },
      {
        kind: 'modrdn',
        dn: 'ou=PD Accountants, ou=Product Development, dc=airius, dc=com',
        controls,
        newRdn: 'ou=PD',
        deleteOldRdn: false,
        newSuperior: 'ou=Accounting, dc=airius, dc=com',
      },
      {
        kind: 'modify',
        dn: 'cn=Paula Jensen, ou=Product Development, dc=airius, dc=com',
        controls,
        changes: [
          {
            operation: 'add',
            attribute: { type: 'postaladdress', values: ['123 Anystreet $ Sunnyvale, CA $ 94086'] },
          },
          { operation: 'delete', attribute: { type: 'description', values: [] } },
          {
            operation: 'replace',
            attribute: { type: 'telephonenumber', values: ['+1 408 555 1234', '+1 408 555 5678'] },
          },
          { operation: 'increment', attribute: { type: 'uidNumber', values: ['1'] } },
          { operation: 'delete', attribute: { type: 'facsimiletelephonenumber', values: ['+1 408 555 9876'] } },
        ],
      },
      {
        kind: 'delete',
        dn: 'ou=Product Development, dc=airius, dc=com',
        controls: [
          { oid: '1.2.840.113556.1.4.805', critical: true },
          { oid: '1.2.3', critical: false, value: 'text' },
          { oid: '1.2.4', critical: false, value: '\0\x01' },
          { oid: '1.2.5', critical: false },
        ],
      },
    ]);
  });
});
