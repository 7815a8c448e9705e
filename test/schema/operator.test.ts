import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { Schema, SchemaError } from '../../src/schema/index.js';
import { refused } from './helpers.js';

describe('schema files of the operator', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-schema-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function load(text: string | Buffer, name = 'own.ldif'): Schema {
    writeFileSync(join(folder, name), text);
    return Schema.load({ extra: [folder] });
  }

  const head = 'dn: cn=own,cn=schema\nobjectClass: subschema\ncn: own\n';

  it('schema files of the operator extend the built-in schema in any order', () => {
    const schema = load(
      `${head}# a comment\n  that goes on\nattributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'shoeSize'\n  SUP sizes )\n` +
        "attributeTypes: ( 1.3.6.1.4.1.99999.2 NAME 'sizes' EQUALITY integerMatch\r\n" +
        '  SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )\nattributeTypes:: KCAxLjMuNi4xLjQuMS45OTk5OS41IE5BTUUgJ3BpbicgU1VQIHNpemVzIFgtU0VDUkVUICdUUlVFJyAp\n' +
        "\ndn: cn=more\nobjectClasses: ( 1.3.6.1.4.1.99999.3 NAME 'shoe' AUXILIARY MAY ( shoeSize $ pin ) )\n",
    );
    expect(schema.attribute('SHOESIZE')!.equality!.names).to.deep.equal(['integerMatch']);
    expect(schema.attribute('pin')!.secret).to.equal(true);
    expect(schema.objectClass('shoe')!.may.has(schema.attribute('shoeSize')!)).to.equal(true);
  });

  it('an attribute of the operator takes the place of one that only cn=Monitor uses', () => {
    const own = '1.3.6.1.4.1.99999.1';
    const schema = load(`${head}attributeTypes: ( ${own} NAME ( 'hat' 'VERSION' ) SUP distinguishedName )\n`);
    expect(schema.attribute('version')!.oid).to.equal(own);
    expect(schema.attribute('threads')!.definition).to.include("X-YIELD 'TRUE'");
    const mail = `${head}attributeTypes: ( ${own} NAME 'mail' SUP name )\n`;
    expect(() => load(mail)).to.throw(SchemaError, "name 'mail' is already that of 'mail'");
  });

  it('schema files of OpenLDAP are accepted, including macros', () => {
    const schema = load(
      'dn: cn={9}own,cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: {9}own\n' +
        'olcObjectIdentifier: {0}Own 1.3.6.1.4.1.99999\nolcObjectIdentifier: {1}OwnAttr Own:7\n' +
        "olcAttributeTypes: {0}( OwnAttr:1 NAME 'hat' SUP name )\nolcObjectClasses: {0}( Own:8.1 NAME 'hatted' SUP top AUXILIARY MAY hat )\n",
    );
    expect(schema.attribute('hat')!.oid).to.equal('1.3.6.1.4.1.99999.7.1');
    expect(schema.objectClass('hatted')!.oid).to.equal('1.3.6.1.4.1.99999.8.1');
  });

  it('a schema file may use macros of earlier files, with dots in their names, and macros predefined in slapd', () => {
    const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
    write(
      'cn={9}first.ldif',
      'dn: cn={9}first\nolcObjectIdentifier: {0}My.Own_x 1.3.6.1.4.1.99999\nstructuralObjectClass: olcSchemaConfig\n' +
        'entryUUID: 597ae2f6-16a6-1027-98f4-d28b5365dc14\ncreatorsName: cn=config\ncreateTimestamp: 20260101000000Z\n' +
        'entryCSN: 20260101000000.000000Z#000000#000#000000\nmodifiersName: cn=config\n' +
        'modifyTimestamp: 20260101000000Z\n',
    );
    const schema = load(
      "attributeTypes: ( my.own_X:7.1 NAME 'hat' EQUALITY caseIgnoreMatch SYNTAX OMsDirectoryString{64} )\n" +
        "attributeTypes: ( My.Own_x:7.2 NAME 'isHat' EQUALITY booleanMatch SYNTAX OMsyn:7 )\n",
      'cn={10}second.ldif',
    );
    expect(schema.attribute('hat')!.oid).to.equal('1.3.6.1.4.1.99999.7.1');
    expect(schema.attribute('hat')!.syntax).to.equal(schema.attribute('cn')!.syntax);
    expect(schema.attribute('isHat')!.syntax.check(Buffer.from('TRUE'))).to.equal(undefined);
  });

  it('.schema files with any indentation can be converted as docs/cli.md says', () => {
    const page = readFileSync(new URL('../../../docs/cli.md', import.meta.url), 'utf8');
    const recipe = /^ {4}sed -E .*?own\.ldif$/ms.exec(page)![0];
    const indents = ['    ', '\t', ' ', '\t  '];
    for (const [i, indent] of indents.entries()) {
      const lines = [
        `objectIdentifier\tMyRoot${i}   1.3.6.1.4.1.99999.${i}`,
        ' \t',
        `attributetype ( MyRoot${i}:1`,
        `NAME 'hat${i}'`,
        'EQUALITY caseIgnoreMatch',
        'SUBSTR',
        'caseIgnoreSubstringsMatch',
        'SYNTAX 1.3.6.1.4.1.1466.115.121.1.15',
        'SINGLE-VALUE )',
        '',
        `objectClass( MyRoot${i}:2 NAME 'hatted${i}' SUP top`,
        'AUXILIARY MUST ( cn $',
        `hat${i} ) )`,
      ];
      const starts = /^(?:object|attribute|\s|$)/i;
      const text = `# Own\n${lines.map((line) => (starts.test(line) ? line : indent + line)).join('\n')}\n`;
      writeFileSync(join(folder, 'own.schema'), text);
      const { status, stderr } = spawnSync('sh', ['-c', recipe], { cwd: folder, encoding: 'utf8' });
      expect(status, stderr).to.equal(0);
      const schema = Schema.load({ extra: [folder] });
      const hat = schema.attribute(`hat${i}`)!;
      expect([hat.oid, hat.singleValue]).to.deep.equal([`1.3.6.1.4.1.99999.${i}.1`, true]);
      expect(hat.substrings!.names).to.deep.equal(['caseIgnoreSubstringsMatch']);
      expect(schema.objectClass(`hatted${i}`)!.must.has(hat)).to.equal(true);
    }
  });

  it('a schema file may define syntaxes and rules that behave like built-in ones', () => {
    const schema = load(
      `${head}ldapSyntaxes: ( 1.3.6.1.4.1.99999.9 DESC 'hex' X-SUBST '1.3.6.1.4.1.1466.115.121.1.26' )\n` +
        "matchingRules: ( 1.3.6.1.4.1.99999.10 NAME 'hexMatch' SYNTAX 1.3.6.1.4.1.99999.9 X-SUBST '1.3.6.1.4.1.1466.109.114.2' )\n" +
        "attributeTypes: ( 1.3.6.1.4.1.99999.11 NAME 'key' EQUALITY hexMatch SYNTAX 1.3.6.1.4.1.99999.9 )\n" +
        "attributeTypes: ( 1.3.6.1.4.1.99999.12 NAME 'note' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.26 )\n",
    );
    const suits = (rule: string, type: string) => schema.ruleApplies(schema.rule(rule)!, schema.attribute(type)!);
    expect(suits('caseExactIA5Match', 'key'), 'as the syntax it stands for').to.equal(true);
    expect(suits('caseExactMatch', 'key')).to.equal(false);
    expect(suits('caseIgnoreMatch', 'note'), 'its own rule').to.equal(true);
    expect(suits('caseExactMatch', 'note')).to.equal(false);
    expect(schema.attribute('key')!.equality!.normalize(Buffer.from('AbC'))).to.deep.equal(Buffer.from('abc'));
    expect(schema.attribute('key')!.syntax.check(Buffer.from('é'))).to.match(/ASCII/);
  });

  it('a schema file may define abstract classes, which serve only to derive other classes', () => {
    const schema = load(
      `${head}objectClasses: ( 1.3.6.1.4.1.99999.1 NAME 'thing' SUP top ABSTRACT MUST description )\n` +
        "objectClasses: ( 1.3.6.1.4.1.99999.2 NAME 'tool' SUP thing AUXILIARY )\n",
    );
    const check = (...classes: string[]) =>
      schema.checkEntry(
        Object.entries({ objectClass: classes, cn: ['x'], description: ['y'] }).map(([name, values]) => ({
          description: schema.requireDescription(name),
          values: values.map((value) => Buffer.from(value)),
        })),
        schema.parseRdn('cn=x'),
      );
    expect(() => check('device', 'thing')).to.throw(
      LdapError,
      /abstract object class 'thing' is given without one derived/,
    );
    expect(check('device', 'thing', 'tool').name).to.equal('device');
  });

  it('a schema file may define DIT content rules, which apply to entries of the structural class', () => {
    const rule =
      'AUX ( uidObject $ strongAuthenticationUser ) MUST serialNumber MAY ( info $ mail ) NOT ( l $ seeAlso )';
    const schema = load(`${head}dITContentRules: ( 2.5.6.14 NAME 'deviceContent' ${rule} X-ORIGIN 'x' )
dITContentRules: ( 2.5.6.6 NAME 'personContent' OBSOLETE )
nameForms: ( 1.3.6.1.4.1.99999.8 NAME 'deviceForm' OC device MUST serialNumber )\n`);
    const check = (objectClass: string[], entry: Record<string, string> = {}) =>
      schema.checkEntry(
        Object.entries({ objectClass, cn: ['x'], ...entry }).map(([name, values]) => ({
          description: schema.requireDescription(name),
          values: [values].flat().map((value) => Buffer.from(value)),
        })),
        schema.parseRdn('cn=x'),
      ).name;
    const serialNumber = '1';
    const refuses = (classes: string[], entry: Record<string, string>, message: RegExp) =>
      refused('objectClassViolation', message, () => check(classes, entry));
    expect(check(['device'], { serialNumber, info: 'x', mail: 'x@y', o: 'x' })).to.equal('device');
    expect(check(['device', 'uidObject'], { serialNumber, uid: 'x' })).to.equal('device');
    expect(check(['person', 'labeledURIObject'], { sn: 'x' }), 'the rule is obsolete').to.equal('person');
    refuses(['device'], {}, /the DIT content rule of 'device' requires attribute 'serialNumber'; add it/);
    refuses(['device'], { serialNumber, l: 'x' }, /the DIT content rule of 'device' precludes attribute 'l'; leave/);
    refuses(['device'], { serialNumber, sn: 'x' }, /'sn' is not allowed by the object classes device/);
    refuses(
      ['device', 'labeledURIObject'],
      { serialNumber },
      /does not list auxiliary object class 'labeledURIObject'/,
    );
    refuses(
      ['device', 'extensibleObject'],
      { serialNumber },
      /does not list auxiliary object class 'extensibleObject'/,
    );
    const published = schema.subschema().map(({ type }) => type);
    expect(published).to.include.members(['dITContentRules', 'nameForms']);
  });

  it('text rules are accepted with every text syntax, and a stored schema accepts every combination that it has', () => {
    const uses = [
      'caseIgnoreMatch:26',
      'caseExactMatch:44',
      'caseIgnoreIA5Match:44',
      'caseIgnoreMatch:11',
      'octetStringMatch:15',
      'distinguishedNameMatch:12',
      'uniqueMemberMatch:12',
      'objectIdentifierMatch:38',
    ].map((use, n) => {
      const [rule, arc] = use.split(':');
      return `attributeTypes: ( 1.3.6.1.4.1.99999.${n} EQUALITY ${rule} SYNTAX 1.3.6.1.4.1.1466.115.121.1.${arc} )\n`;
    });
    load(head + uses.join(''));
    const misfit = at('EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15');
    const stored = Schema.of({ nis: 'rfc2307', files: [{ name: 'own.ldif', text: misfit }] });
    expect(stored.attribute('own')).to.have.property('oid', '1.3.6.1.4.1.99999.1');
  });

  const cr = (rest: string) => `${head}dITContentRules: ( ${rest} )\n`;
  const at = (rest: string) => `${head}attributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'own' ${rest} )\n`;
  const oc = (rest: string) => `${head}objectClasses: ( 1.3.6.1.4.1.99999.1 NAME 'own' ${rest} )\n`;
  const mistakes: [string, string, number, RegExp][] = [
    ['an unknown superior', at('SUP nam'), 4, /'own': superior 'nam' is not defined; did you mean 'cn|name'/],
    ['an unknown syntax', at('SYNTAX 1.2.3'), 4, /syntax 1.2.3 is not defined/],
    ['a malformed syntax', at('SYNTAX text'), 4, /SYNTAX 'text' is not an OID/],
    ['neither syntax nor superior', at("DESC 'x'"), 4, /neither SYNTAX nor SUP; add one/],
    [
      'an unknown rule',
      at('EQUALITY caseIgnorMatch SUP name'),
      4,
      /'caseIgnorMatch' is not defined; did you mean 'caseIgnoreMatch'\?/,
    ],
    [
      'a rule of the wrong kind',
      at('EQUALITY caseIgnoreSubstringsMatch SUP name'),
      4,
      /is a rule for substrings, not equality/,
    ],
    [
      'an equality rule by which text has no form',
      at('EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15'),
      4,
      /'own': equality rule integerMatch does not go with syntax [0-9.]+\.15 \(Directory string\)/,
    ],
    [
      'an ordering rule by which text has no form',
      at('SUP name ORDERING generalizedTimeOrderingMatch'),
      4,
      /ordering rule generalizedTimeOrderingMatch does not go with syntax/,
    ],
    [
      'an unknown usage',
      at('SUP name USAGE directoryOperations'),
      4,
      /USAGE 'directoryOperations' is unknown; did you mean 'directoryOperation'/,
    ],
    ['a usage unlike its superior', at('SUP name USAGE dSAOperation'), 4, /USAGE differs from that of 'name'/],
    ['itself above it', at('SUP own'), 4, /above itself/],
    ['a quote never closed', at("DESC 'x"), 4, /quote at character .* never closed/],
    [
      'a taken OID',
      `${head}attributeTypes: ( 2.5.4.3 NAME 'own' SUP name )\n`,
      4,
      /OID 2.5.4.3 is already that of 'cn' \(rfc4519-core.ldif:\d+\)/,
    ],
    [
      'a taken name',
      `${head}\nattributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'CommonName' SUP name )\n`,
      5,
      /name 'commonname' is already that of 'cn'/,
    ],
    [
      'an unknown attribute of a class',
      oc('MUST ( cn $ mial )'),
      4,
      /attribute of MUST 'mial' is not defined; did you mean 'mail'/,
    ],
    ['an unknown superior class', oc('SUP persom'), 4, /superior class 'persom' is not defined; did you mean 'person'/],
    ['two kinds of class', oc('ABSTRACT AUXILIARY'), 4, /is ABSTRACT and AUXILIARY; keep one/],
    [
      'an auxiliary class below a structural one',
      oc('SUP person AUXILIARY'),
      4,
      /auxiliary class 'own' derives from structural 'person'/,
    ],
    [
      'a syntax that is not built in',
      `${head}ldapSyntaxes: ( 1.2.3 )\n`,
      4,
      /syntax 1.2.3 is not built in; add X-SUBST/,
    ],
    [
      'a rule that is not built in',
      `${head}matchingRules: ( 1.2.3 NAME 'x' SYNTAX 1.2.3 )\n`,
      4,
      /rule 1.2.3 is not built in; add X-SUBST/,
    ],
    ['a content rule of no structural class', cr("2.5.6.0 NAME 'own'"), 4, /'own': 2\.5\.6\.0 is no structural object/],
    ['a content rule of an unknown class', cr('2.5.6.14 AUX uidObjct'), 4, /did you mean 'uidObject'/],
    ['a content rule with a class that is not auxiliary', cr('2.5.6.14 AUX person'), 4, /'person' of AUX is not aux/],
    ['a content rule of an unknown attribute', cr('2.5.6.14 MUST mial'), 4, /attribute of MUST 'mial' is not defined/],
    ['a content rule against its class', cr('2.5.6.14 NOT cn'), 4, /'device' requires attribute 'cn' of NOT; remove/],
    ['a structure rule', `${head}dITStructureRules: ( 1 FORM x )\n`, 4, /structure rule cannot be put in force here/],
    [
      'a mistyped attribute',
      'dn: cn=x\n\nattributeType: ( 1.2.3 )\n',
      3,
      /'attributeType' is not a schema attribute; did you mean 'attributeTypes'/,
    ],
    [
      'a line that is none',
      'dn: cn=x\nattributeTypes ( 1.2.3 )\n',
      2,
      /is not 'attribute: value'; start a continued line with a space/,
    ],
    ['a fold of nothing', '\n folded\n', 2, /continues no line/],
    ['bytes that are not UTF-8', 'dn: cn=\xff\n', 0, /not UTF-8/],
    [
      'a text behind two colons that is not base64',
      `${head}attributeTypes:: ( 1.2.3\n`,
      4,
      /character 1 of the text behind "::" is not base64/,
    ],
    ['base64 that lacks its end', `${head}\nattributeTypes:: KCAxL\n`, 5, /has 5 characters; the length must be/],
    ['base64 of what is not UTF-8', 'dn:: /w==\n', 1, /the value is not UTF-8/],
    ['UTF-16', 'd\0n\0:\0\n\0', 0, /is UTF-16; convert it with iconv -f UTF-16LE -t UTF-8/],
    ['line ends of CR alone', `# own\rdn: cn=own\robjectClass: subschema\r`, 1, /the line ends are CR alone; convert/],
  ];
  for (const [what, text, line, message] of mistakes) {
    it(`the error about ${what} names file, line and remedy`, () => {
      let error: unknown;
      try {
        load(Buffer.from(text, 'latin1'));
      } catch (caught) {
        error = caught;
      }
      expect(error).to.be.instanceOf(SchemaError);
      const { file, line: at, message: said } = error as SchemaError;
      expect(said).to.match(message);
      expect(file).to.equal(join(folder, 'own.ldif'));
      expect(at).to.equal(line);
      expect(said.startsWith(`${file}:${line}: `)).to.equal(true);
    });
  }

  it('warns of files that it does not read, and of a rule that compares with another syntax', () => {
    const [rule, syntax] = ['certificateExactMatch', '1.3.6.1.1.15.1'];
    writeFileSync(join(folder, 'own.ldif'), at(`EQUALITY ${rule} SYNTAX ${syntax}`));
    for (const name of ['old.schema', 'more.LDIF.gz', 'README', 'notes.md', '.hidden', 'own.ldif~'])
      writeFileSync(join(folder, name), '');
    const warnings: string[] = [];
    const schema = Schema.load({ extra: [folder], warn: (message) => warnings.push(message) });
    expect(schema.attribute('own')!.equality!.names).to.deep.equal([rule]);
    expect(warnings.map((text) => text.replaceAll(folder, 'F'))).to.have.members([
      "schema folder 'F': 'old.schema' is not read, only .ldif files are; convert it or take it away",
      "schema folder 'F': 'more.LDIF.gz' is not read, only .ldif files are; convert it or take it away",
      `own.ldif:4: 'own': equality rule ${rule} does not go with syntax ${syntax} (X.509 certificate exact assertion), so that it finds no value`,
    ]);
  });

  it('a schema file may have lines of spaces between entries', () => {
    const text = `${head}\n  \nattributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'own' SUP name )\n \n\n`;
    expect(load(text).attribute('own')!.oid).to.equal('1.3.6.1.4.1.99999.1');
  });

  it('a cycle of superiors is refused', () => {
    const text = `${head}attributeTypes: ( 1.2.3.1 NAME 'a' SUP b )\nattributeTypes: ( 1.2.3.2 NAME 'b' SUP a )\n`;
    expect(() => load(text)).to.throw(SchemaError, /break the circle of SUP/);
  });

  it('a schema folder has to exist', () => {
    expect(() => Schema.load({ extra: [join(folder, 'gone')] })).to.throw(
      SchemaError,
      /cannot be read \(ENOENT\); create it/,
    );
  });
});
