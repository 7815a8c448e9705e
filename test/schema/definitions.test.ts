import { expect } from 'chai';
import { formatDefinition, parseDefinition } from '../../src/schema/definition.js';
import { Schema } from '../../src/schema/index.js';
import { schema } from './helpers.js';

describe('built-in definitions', () => {
  it('the built-in definitions load with either NIS schema', () => {
    expect(Schema.load({ nis: 'rfc2307' }).objectClass('posixGroup')!.kind).to.equal('STRUCTURAL');
    const bis = Schema.load({ nis: 'rfc2307bis' });
    expect(bis.objectClass('posixGroup')!.kind).to.equal('AUXILIARY');
    for (const name of ['ipProtocol', 'oncRpc']) {
      const must = (one: Schema) => [...one.objectClass(name)!.must].some((type) => type.name === 'description');
      expect([must(schema), must(bis)], name).to.deep.equal([true, false]);
    }
    expect(bis.attribute('automountKey')).to.not.equal(undefined);
  });

  it('all built-in definitions are published, and their text parses to the same definitions', () => {
    let count = 0;
    for (const { type, values } of schema.subschema()) {
      for (const value of values) {
        const definition = parseDefinition(type as 'attributeTypes', value);
        expect(formatDefinition(definition)).to.equal(value);
        expect(parseDefinition(type as 'attributeTypes', formatDefinition(definition))).to.deep.equal(definition);
        expect(schema.requireDescription(type).type.syntax.check(Buffer.from(value)), value).to.equal(undefined);
        count++;
      }
    }
    expect(count).to.be.greaterThan(350);
  });

  it('built-in definitions have descriptions and unique names and OIDs', () => {
    const seen = new Set<string>();
    for (const type of schema.attributes()) {
      for (const key of [type.oid, ...type.names.map((name) => name.toLowerCase())]) {
        expect(seen.has(key), key).to.equal(false);
        seen.add(key);
        expect(schema.attribute(key)).to.equal(type);
        expect(schema.attribute(key.toUpperCase())).to.equal(type);
      }
      expect(type.description, type.name).to.be.a('string');
    }
  });

  it('attribute types inherit syntax and matching rules', () => {
    const cn = schema.attribute('commonName')!;
    expect(cn.name).to.equal('cn');
    expect(cn.superior).to.equal(schema.attribute('name'));
    expect(cn.equality).to.equal(schema.rule('caseIgnoreMatch'));
    expect(cn.substrings).to.equal(schema.rule('caseIgnoreSubstringsMatch'));
    expect(cn.syntax).to.equal(schema.syntax('1.3.6.1.4.1.1466.115.121.1.15'));
    expect(cn.maxLength).to.equal(32768);
    expect(schema.attribute('c')!.syntax.oid).to.equal('1.3.6.1.4.1.1466.115.121.1.11');
    expect(schema.attribute('c')!.equality).to.equal(cn.equality);
    expect(schema.attribute('memberURL')!.equality).to.equal(schema.rule('caseExactMatch'));
    const below = schema.attribute('name')!.subtypes.map((type) => type.name);
    expect(below).to.include.members(['name', 'cn', 'sn', 'c', 'ipServiceProtocol']);
    expect(below).to.not.include('uid');
  });

  it('object classes inherit required and allowed attributes', () => {
    const person = schema.objectClass('inetOrgPerson')!;
    const names = (types: Iterable<{ name: string }>) => [...types].map((type) => type.name);
    expect(names(person.must)).to.have.members(['objectClass', 'sn', 'cn']);
    expect(names(person.may)).to.include.members(['mail', 'telephoneNumber', 'title', 'userPassword']);
    expect(names(schema.expandClass('person')!)).to.have.members([
      'objectClass',
      'sn',
      'cn',
      'userPassword',
      'telephoneNumber',
      'seeAlso',
      'description',
    ]);
    expect(schema.expandClass('persom')).to.equal(undefined);
  });

  it('secrets and operational attributes are marked', () => {
    const secret = [...schema.attributes()].filter((type) => type.secret).map((type) => type.name);
    const own = ['rowanAppPassword', 'rowanTotpSecret'];
    expect(secret).to.have.members(['userPassword', 'authPassword', 'pwdHistory', ...own]);
    for (const name of ['entryUUID', 'memberOf', 'namingContexts', 'ref', 'pwdChangedTime']) {
      expect(schema.attribute(name)!.operational, name).to.equal(true);
    }
    expect(schema.attribute('pwdMaxAge')!.operational).to.equal(false);
    expect(schema.attribute('entryUUID')!.noUserModification).to.equal(true);
    expect(schema.attribute('pwdReset')!.noUserModification).to.equal(false);
  });

  it('well-known OIDs are defined', () => {
    const known = {
      cn: '2.5.4.3',
      userPassword: '2.5.4.35',
      uid: '0.9.2342.19200300.100.1.1',
      mail: '0.9.2342.19200300.100.1.3',
      entryUUID: '1.3.6.1.1.16.4',
      entryCSN: '1.3.6.1.4.1.4203.666.1.7',
      entryDN: '1.3.6.1.1.20',
      memberOf: '1.2.840.113556.1.2.102',
      uidNumber: '1.3.6.1.1.1.1.0',
      pwdAccountLockedTime: '1.3.6.1.4.1.42.2.27.8.1.17',
    };
    for (const [name, oid] of Object.entries(known)) expect(schema.attribute(name)!.oid, name).to.equal(oid);
    expect(schema.rule('1.2.840.113556.1.4.803')).to.equal(schema.rule('integerBitAndMatch'));
    expect(schema.rule('1.2.840.113556.1.4.804')).to.equal(schema.rule('integerBitOrMatch'));
    expect(schema.rule('dnSubtreeMatch')!.oid).to.equal('1.3.6.1.4.1.4203.666.4.9');
  });

  it('the definitions of all supported documents are built in', () => {
    const classes: Record<string, readonly string[]> = {
      'RFC 4512': ['top', 'alias', 'subschema', 'extensibleObject'],
      'RFC 4519': ['person', 'organization', 'organizationalUnit', 'groupOfNames', 'groupOfUniqueNames', 'dcObject'],
      'RFC 4524': ['account', 'document', 'domain', 'room', 'simpleSecurityObject'],
      'RFC 2798': ['inetOrgPerson'],
      'RFC 2307': ['posixAccount', 'shadowAccount', 'posixGroup', 'ipHost', 'nisNetgroup'],
      'RFC 4523': ['pkiUser', 'pkiCA', 'cRLDistributionPoint', 'deltaCRL'],
      'RFC 3296': ['referral'],
      'dynamic groups': ['groupOfURLs'],
      'password policy': ['pwdPolicy'],
    };
    const attributes: Record<string, readonly string[]> = {
      'RFC 4530': ['entryUUID'],
      'RFC 5020': ['entryDN'],
      'X.501': ['hasSubordinates', 'structuralObjectClass'],
      'RFC 4519': ['dc', 'ou', 'member', 'uniqueMember', 'userPassword', 'x121Address'],
      'RFC 4524': ['mail', 'manager', 'host', 'drink'],
      'RFC 4523': ['userCertificate', 'cACertificate', 'certificateRevocationList', 'crossCertificatePair'],
      'RFC 2307': ['uidNumber', 'memberUid', 'homeDirectory', 'ipHostNumber'],
      'dynamic groups': ['memberURL'],
      'password policy': ['pwdMaxAge', 'pwdLockout', 'pwdPolicySubentry', 'pwdFailureTime'],
    };
    for (const [document, names] of Object.entries(classes))
      for (const name of names) expect(schema.objectClass(name), `${name} of ${document}`).to.not.equal(undefined);
    for (const [document, names] of Object.entries(attributes))
      for (const name of names) expect(schema.attribute(name), `${name} of ${document}`).to.not.equal(undefined);
  });

  it('matchingRuleUse lists the attributes that a rule may be used with', () => {
    const uses = schema.subschema().find((attribute) => attribute.type === 'matchingRuleUse')!.values;
    const bits = uses.find((use) => use.startsWith('( 1.2.840.113556.1.4.803 '))!;
    expect(bits).to.match(/ NAME 'integerBitAndMatch' APPLIES \( .*uidNumber .*\)/);
    const chain = uses.find((use) => use.startsWith('( 1.2.840.113556.1.4.1941 '))!;
    expect(chain).to.match(/ NAME 'inChainMatch' APPLIES \(/);
    for (const name of ['member', 'uniqueMember', 'manager', 'memberOf']) expect(chain).to.contain(` ${name} `);
    expect(uses.join()).to.not.contain('userPassword');
    expect(schema.ruleApplies(schema.rule('caseExactMatch')!, schema.attribute('cn')!)).to.equal(true);
    expect(schema.ruleApplies(schema.rule('integerMatch')!, schema.attribute('cn')!)).to.equal(false);
    expect(schema.ruleApplies(schema.rule('octetStringMatch')!, schema.attribute('userPassword')!)).to.equal(false);
    for (const use of uses) {
      const [, oid, list] = /^\( (\S+) NAME '[^']+' APPLIES \(? ?([^)]*?) ?\)/.exec(use)!;
      const suited = [...schema.attributes()].filter((type) => schema.ruleApplies(schema.rule(oid!)!, type));
      expect(list!.split(' $ '), use).to.deep.equal(suited.map((type) => type.name));
    }
    for (const type of schema.attributes()) {
      for (const rule of [type.equality, type.ordering, type.substrings])
        if (rule && !type.secret)
          expect(schema.ruleApplies(rule, type), `${rule.names[0]} ${type.name}`).to.equal(true);
    }
  });
});

describe('text of schema definitions', () => {
  it('a definition is parsed with any quotes, order of keywords and spaces', () => {
    const loose = parseDefinition(
      'attributeTypes',
      "(1.2.3 SYNTAX '1.2.4{5}'   name ( a 'b' ) DESC 'it\\27s' X-A 'y')",
    );
    expect(formatDefinition(loose)).to.equal("( 1.2.3 NAME ( 'a' 'b' ) DESC 'it\\27s' SYNTAX 1.2.4{5} X-A 'y' )");
    expect(loose.fields.get('DESC')).to.deep.equal(["it's"]);
  });

  const mistakes: [string, RegExp][] = [
    ["( 1.2.3 NAME 'a", /quote at character 14 is never closed/],
    ["( 1.2.3 NAME 'a'", /ends where a keyword should follow; is a '\)' missing\?/],
    ["1.2.3 NAME 'a'", /'1.2.3' at character 1 where '\(' should be/],
    ['( 1.2.x )', /'1.2.x' is not a numeric object identifier/],
    ['( 1.02 )', /not a numeric object identifier/],
    ["( 1.2.3 NAME '1a' )", /'1a' is not a name/],
    ["( 1.2.3 NAMES 'a' )", /unknown keyword 'NAMES'; did you mean 'NAME'\?/],
    ["( 1.2.3 DESC 'a' DESC 'b' )", /DESC is given twice/],
    ["( 1.2.3 NAME 'a' ) x", /'x' at character 20 follows the closing/],
    ['( 1.2.3 NAME ( ) )', /empty list/],
  ];
  for (const [text, message] of mistakes) {
    it(`definition ${text} is refused`, () => expect(() => parseDefinition('attributeTypes', text)).to.throw(message));
  }

  it('a definition with a list without dollar signs is refused', () => {
    expect(() => parseDefinition('objectClasses', '( 1.2.3 MUST ( a b ) )')).to.throw(
      /'b' at character 18 where '\$' should be/,
    );
  });
});
