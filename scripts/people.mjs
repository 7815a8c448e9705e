#!/usr/bin/env node
/**
 * people.mjs N: writes LDIF for dc=example,dc=com with N people (uid=user.0 … below ou=people) to standard output.
 *
 * What `npm run bench` loads. Every password is "password", salted and hashed as {SSHA}; the salt is the person's
 * number as 8 bytes, so that the same N gives the same bytes.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';

const BLOCK = 1000;

const head = `dn: dc=example,dc=com
objectClass: top
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,dc=example,dc=com
objectClass: top
objectClass: organizationalUnit
ou: people

`;

const salted = Buffer.alloc(16);
salted.write('password', 'latin1');
const stored = Buffer.alloc(28);

function storedPassword(i) {
  salted.writeBigUInt64BE(BigInt(i), 8);
  createHash('sha1').update(salted).digest().copy(stored);
  salted.copy(stored, 20, 8);
  return `{SSHA}${stored.toString('base64')}`;
}

function person(i) {
  return `dn: uid=user.${i},ou=people,dc=example,dc=com
objectClass: top
objectClass: person
objectClass: organizationalPerson
objectClass: inetOrgPerson
uid: user.${i}
cn: Common user.${i}
sn: Sur${i % 5000}
givenName: Given${i % 1000}
mail: user.${i}@example.com
telephoneNumber: +1 555 ${String(i).padStart(7, '0')}
description: This is the description for user.${i}
l: City${i % 100}
street: ${i} Main street
userPassword: ${storedPassword(i)}

`;
}

async function write(text) {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

const people = Number(process.argv[2]);
if (!Number.isSafeInteger(people) || people < 0) {
  process.stderr.write('usage: people.mjs N\n');
  process.exit(2);
}
process.stdout.on('error', (error) => process.exit(error.code === 'EPIPE' ? 0 : 1));
await write(head);
for (let i = 0; i < people; i += BLOCK) {
  const block = [];
  for (let k = i; k < Math.min(i + BLOCK, people); k++) block.push(person(k));
  await write(block.join(''));
}
