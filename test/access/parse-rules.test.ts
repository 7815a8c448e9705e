import { expect } from 'chai';
import { parseRules } from '../../src/access/parse-rules.js';
import { rightsIn } from '../../src/access/right.js';
import type { AccessRules } from '../../src/access/rule.js';
import { Schema } from '../../src/schema/index.js';

const schema = Schema.load();

function faultsOf(text: string): string[] {
  const { rules, faults } = parseRules(text, schema);
  expect(rules === undefined, 'no rules where there are faults').to.equal(faults.length > 0);
  return faults.map(({ line, message }) => `${line}: ${message}`);
}

function parsed(text: string): AccessRules {
  const { rules, faults } = parseRules(text, schema);
  expect(faults).to.deep.equal([]);
  return rules!;
}

/** A file with one rule, whose keys stand from line 3 on. */
function rule(...lines: readonly string[]): string {
  return ['rules:', '- name: r', ...lines.map((line) => `  ${line}`)].join('\n');
}

const USERS = 'who: { users: true }';
const WORDS =
  'see, read, search, compare, add, delete, replace, create, remove, rename, moveIn, moveOut, proxy, manage, view, write';

/** Of a rule's lines the faults. */
const FAULTS: readonly (readonly [what: string, lines: readonly string[], faults: readonly string[]])[] = [
  [
    'unknown key of a rule',
    [USERS, 'alow: [view]'],
    [
      "2: rule 'r': it allows nothing and denies nothing; add 'allow' or 'deny'",
      "4: rule 'r': a rule has no key 'alow'; did you mean 'allow'?",
    ],
  ],
  [
    'unknown key of who',
    ['who: { userz: true }', 'allow: [view]'],
    ["3: rule 'r': who has no key 'userz'; did you mean 'users'?"],
  ],
  [
    'unknown key of not',
    ['who: { not: { whoever: 1 } }', 'allow: [view]'],
    [
      "3: rule 'r': not has no key 'whoever'; it has anonymous, users, self, dn, subtree, group, attribute, network, strength, mechanism, not",
      "3: rule 'r': this never applies: 'not: {}' is nobody; say who not",
    ],
  ],
  [
    'not with a list',
    ['who: { users: true, not: [ { users: true }, {}, 7 ] }', 'allow: [view]'],
    [
      "3: rule 'r': not has to be made of keys: anonymous, users, self, dn, subtree, group, attribute, network, strength, mechanism, not",
      "3: rule 'r': this never applies: 'users' and 'not: { users: true }' exclude each other; take one away",
      "3: rule 'r': this never applies: 'not: {}' is nobody; say who not",
      "3: rule 'r': this never applies: 'not: {}' is nobody; say who not",
    ],
  ],
  [
    'DN without quotes in braces',
    ['who: { dn: uid=a,ou=b }', 'allow: [view]'],
    ["3: rule 'r': who has no key 'ou=b'; a DN within { } goes into quotes"],
  ],
  [
    'DNs without quotes in brackets',
    ['who:', '  dn: [uid=a,o=x]', 'allow: [view]'],
    ["4: rule 'r': 'dn': DNs within [ ] go into quotes: a comma parts the list there"],
  ],
  ['unknown right', [USERS, 'allow: [raed]'], ["4: rule 'r': 'raed' is no right; did you mean 'read'?"]],
  [
    'unknown right that is like none',
    [USERS, 'allow: [everything]'],
    [`4: rule 'r': 'everything' is no right; there are ${WORDS}`],
  ],
  [
    'unknown attribute',
    [USERS, 'to: { attributes: [cn, pwdRset] }', 'allow: [view]'],
    [
      `4: rule 'r': attribute 'pwdRset' is not in the schema; did you mean 'pwdReset'? "rowan schema set" defines others`,
    ],
  ],
  [
    'unknown class',
    [USERS, 'to: { attributes: ["@inetOrgPersn"] }', 'allow: [view]'],
    ["4: rule 'r': object class 'inetOrgPersn' is not in the schema; did you mean 'inetOrgPerson'?"],
  ],
  [
    'bad DN',
    ['who: { dn: "uid" }', 'allow: [view]'],
    ["3: rule 'r': 'uid': invalid DN at byte 4: '=' expected after the attribute 'uid'"],
  ],
  [
    'bad DN in to',
    [USERS, 'to: { one: "o=x,," }', 'allow: [view]'],
    ["4: rule 'r': 'o=x,,': invalid DN at byte 5: an attribute type expected"],
  ],
  [
    'bad filter',
    [USERS, 'to: { filter: "(cn=a" }', 'allow: [view]'],
    ["4: rule 'r': filter, at character 6: expected ')', found the end"],
  ],
  [
    'filter on an unknown attribute',
    [USERS, 'to: { filter: "(&(cn=a)(mial=b))" }', 'allow: [view]'],
    [`4: rule 'r': attribute 'mial' is not in the schema; did you mean 'mail'? "rowan schema set" defines others`],
  ],
  [
    'filter on what is worked out',
    [USERS, 'to:', '  filter:', '  - (cn=a)', '  - (!(hasSubordinates=TRUE))', 'allow: [view]'],
    [
      "7: rule 'r': filter (!(hasSubordinates=TRUE)): attribute 'hasSubordinates' is worked out when it is asked for, and not for rules",
    ],
  ],
  [
    'filter with an in-chain match, which is worked out',
    [USERS, 'to: { filter: "(manager:1.2.840.113556.1.4.1941:=cn=g,o=x)" }', 'allow: [view]'],
    [
      "4: rule 'r': filter (manager:1.2.840.113556.1.4.1941:=cn=g,o=x): an in-chain match is worked out when it is asked for, and not for rules",
    ],
  ],
  [
    'filter on groups, which are worked out',
    [USERS, 'to: { filter: "(memberOf=cn=g,o=x)" }', 'allow: [view]'],
    [
      "4: rule 'r': filter (memberOf=cn=g,o=x): attribute 'memberOf' is worked out when it is asked for, and not for rules",
    ],
  ],
  [
    'filter on a secret',
    [USERS, 'to: { filter: (userPassword=*) }', 'allow: [view]'],
    ["4: rule 'r': filter (userPassword=*): attribute 'userPassword' may not be searched: it is never true"],
  ],
  [
    'filter by a value that is none',
    [USERS, 'to: { filter: (uidNumber=ten) }', 'allow: [view]'],
    ["4: rule 'r': filter (uidNumber=ten): the value asked of 'uidNumber' is not of its syntax: it is never true"],
  ],
  [
    'filter on the DN',
    [USERS, 'to: { filter: "(ou:dn:=people)" }', 'allow: [view]'],
    ["4: rule 'r': filter (ou:dn:=people): ':dn:' is not for rules; say where by 'base', 'one' or 'subtree'"],
  ],
  [
    'filter on any attribute',
    [USERS, 'to: { filter: "(:caseIgnoreMatch:=people)" }', 'allow: [view]'],
    ["4: rule 'r': filter (:caseIgnoreMatch:=people): name the attribute ahead of the matching rule"],
  ],
  [
    'network that is none',
    [
      'who: { network: [10.0.0.0/8, localhost, 10.0.0.0/33, "2001:db8::/129", 10.0.0, "fe80::1%eth0"] }',
      'allow: [view]',
    ],
    [
      "3: rule 'r': 'localhost' is no address and no network; write it like 10.1.2.3, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32",
      "3: rule 'r': '10.0.0.0/33': behind the '/' stands a number from 0 to 32",
      "3: rule 'r': '2001:db8::/129': behind the '/' stands a number from 0 to 128",
      "3: rule 'r': '10.0.0' is no address and no network; write it like 10.1.2.3, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32",
      "3: rule 'r': 'fe80::1%eth0' is no address and no network; write it like 10.1.2.3, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32",
    ],
  ],
  [
    'IPv4 written as IPv6',
    ['who: { network: "::ffff:10.0.0.0/104" }', 'allow: [view]'],
    ["3: rule 'r': '::ffff:10.0.0.0/104' never comes: a client's IPv4 address is written like 10.0.0.0/8"],
  ],
  [
    'empty list',
    ['who: { network: [], dn: [] }', 'to: { attributes: [] }', 'allow: []'],
    [
      "3: rule 'r': the list of 'dn' is empty and holds for nothing; leave 'dn' away, or name something",
      "3: rule 'r': the list of 'network' is empty and holds for nothing; leave 'network' away, or name something",
      "4: rule 'r': the list of 'attributes' is empty and holds for nothing; leave 'attributes' away, or name something",
      "5: rule 'r': the list of 'allow' is empty and holds for nothing; leave 'allow' away, or name something",
    ],
  ],
  [
    'false',
    ['who: { self: false }', 'allow: [view]'],
    ["3: rule 'r': 'self' takes only true; for the others write not: { self: true }"],
  ],
  [
    'two places',
    [USERS, 'to:', '  base: o=x', '  subtree: o=y', 'allow: [view]'],
    ["6: rule 'r': 'to' has at most one of base, one and subtree, not 'base' and 'subtree'"],
  ],
  ['neither allow nor deny', [USERS], ["2: rule 'r': it allows nothing and denies nothing; add 'allow' or 'deny'"]],
  [
    'without who',
    ['allow: [view]'],
    ["2: rule 'r': it does not say who; 'who: { users: true }' is whoever has bound, 'who: {}' everybody"],
  ],
  [
    'key without value',
    [USERS, 'to:', 'allow: [view]'],
    ["4: rule 'r': 'to' has no value; give it one, or take the key away"],
  ],
  [
    'key that is there twice',
    [USERS, 'allow: [view]', 'allow: [read]'],
    ["5: rule 'r': 'allow' is there already, in line 4; keep one"],
  ],
  [
    'allowed and denied',
    [USERS, 'allow: [view]', 'deny: [read, search]'],
    ["5: rule 'r': 'read, search' is both allowed and denied; deny wins, so take it out of one"],
  ],
  ...['users', 'self'].map(
    (key) =>
      [
        `anonymous with ${key}`,
        [`who: { anonymous: true, ${key}: true }`, 'allow: [view]'],
        [`3: rule 'r': this never applies: who has not bound fits no '${key}'; take 'anonymous' or '${key}' away`],
      ] as const,
  ),
  ...['dn: o=x', 'group: o=x', 'subtree: o=x', 'attribute: manager', 'mechanism: simple'].map((key) => {
    const name = key.split(':', 1)[0];
    return [
      `anonymous with ${name}`,
      ['who:', '  anonymous: true', `  ${key}`, 'allow: [view]'],
      [`4: rule 'r': this never applies: who has not bound fits no '${name}'; take 'anonymous' or '${name}' away`],
    ] as const;
  }),
  [
    'what excludes itself',
    ['who: { users: true, not: { users: true } }', 'allow: [view]'],
    ["3: rule 'r': this never applies: 'users' and 'not: { users: true }' exclude each other; take one away"],
  ],
  [
    'mechanism that nobody binds by',
    ['who: { mechanism: EXTERNAL }', 'allow: [view]'],
    ["3: rule 'r': nobody binds by mechanism 'EXTERNAL'; there is simple, application"],
  ],
  [
    'strength that no cipher has',
    ['who: { strength: 257 }', 'allow: [view]'],
    ["3: rule 'r': 'strength' has to be a whole number from 0 to 256"],
  ],
  [
    'attribute of who that has no DNs',
    ['who: { attribute: [manager, cn, "seeAlso;lang-de", entryDN, nothing] }', 'allow: [view]'],
    [
      "3: rule 'r': attribute 'cn' has no DNs for values; name one like manager or owner",
      "3: rule 'r': 'attribute' names a type; write 'seeAlso' for 'seeAlso;lang-de'",
      "3: rule 'r': attribute 'entryDN' is worked out when it is asked for; use self or subtree",
      `3: rule 'r': attribute 'nothing' is not in the schema; "rowan schema set" defines others`,
    ],
  ],
  [
    'right on the entry without it',
    [USERS, 'to: { attributes: [cn] }', 'allow: [remove]'],
    ["5: rule 'r': 'remove' is a right on the entry; add 'entry' to attributes"],
  ],
  [
    'right on what is below without it',
    [USERS, 'to: { attributes: [cn, entry] }', 'allow: [create]'],
    ["5: rule 'r': 'create' is a right on what comes below an entry; add 'children' to attributes"],
  ],
  [
    'right on attributes without any',
    [USERS, 'to: { attributes: [entry, children] }', 'allow: [see, write]'],
    [`5: rule 'r': 'write' is a right on attributes; add them to attributes, or "*" for all but secrets`],
  ],
  [
    'search for a secret',
    [USERS, 'to: { attributes: [userPassword] }', 'allow: [search]'],
    ["5: rule 'r': this never applies: nobody searches for secrets such as 'userPassword'"],
  ],
  [
    'reading what is the server’s alone',
    [USERS, 'to: { attributes: [rowanAppPassword] }', 'allow: [read]'],
    ["5: rule 'r': this never applies: 'rowanAppPassword' is for the server alone"],
  ],
  [
    'writing what is worked out',
    [USERS, 'to: { attributes: [entryDN] }', 'allow: [read, replace]'],
    ["5: rule 'r': this never applies: 'entryDN' is worked out when it is asked for, and cannot be written"],
  ],
  [
    'root DSE',
    [USERS, 'to: { base: "" }', 'allow: [view]'],
    ["4: rule 'r': this never applies: the root DSE is shown to everybody, whatever the rules"],
  ],
  [
    'not, nested too deep',
    [`who: ${'{ not: '.repeat(9)}{ self: true }${' }'.repeat(9)}`, 'allow: [view]'],
    [
      "3: rule 'r': 'not' within 'not' goes at most 8 deep",
      "3: rule 'r': this never applies: 'not: {}' is nobody; say who not",
    ],
  ],
  [
    'text where a list of texts is wanted',
    [USERS, 'to: { attributes: { cn: true } }', 'allow: [1]'],
    [
      "4: rule 'r': 'attributes' has to be a text, or a list of texts",
      "5: rule 'r': 'allow' has to be a text, or a list of texts",
    ],
  ],
  [
    'alias',
    ['who: &w { users: true }', 'to: *w', 'allow: [view]'],
    ['4: anchors and aliases (&x, *x) are not read; write it out'],
  ],
  [
    'star without quotes',
    [USERS, 'to: { attributes: [*] }', 'allow: [view]'],
    ['4: this is not YAML: Alias cannot be an empty string; put "*" into quotes'],
  ],
  [
    'class without quotes',
    [USERS, 'to: { attributes: [@person] }', 'allow: [view]'],
    ['4: this is not YAML: Plain value cannot start with reserved character @; put "@class" into quotes'],
  ],
];

const LIMIT_FAULTS: readonly (readonly [what: string, lines: readonly string[], faults: readonly string[]])[] = [
  [
    'that depends on an entry',
    ['who: { self: true }', 'sizeLimit: 5'],
    ["4: limit 'l': a limit is for requests, not for entries; take 'self' away"],
  ],
  [
    'that depends on an attribute of an entry',
    ['who: { not: { attribute: owner } }', 'sizeLimit: 5'],
    ["4: limit 'l': a limit is for requests, not for entries; take 'attribute' away"],
  ],
  [
    'of an unknown name',
    ['who: {}', 'sizeLimit: 5', 'lookLimits: 5'],
    ["6: limit 'l': a limit has no key 'lookLimits'; did you mean 'lookLimit'?"],
  ],
  [
    'of nothing',
    ['who: {}'],
    ["3: limit 'l': it limits nothing; add sizeLimit, timeLimit, lookLimit, pageSize or inFlight"],
  ],
  [
    'that is no number',
    ['who: {}', 'sizeLimit: many', 'inFlight: 1000001'],
    [
      "5: limit 'l': 'sizeLimit' has to be a whole number from 0 to 2147483647",
      "6: limit 'l': 'inFlight' has to be a whole number from 1 to 1000000",
    ],
  ],
  [
    'of time that is none',
    ['who: {}', 'timeLimit: 2 weeks'],
    [`5: limit 'l': 'timeLimit' has to be a number of seconds, or one like "30 s" or "5 m", up to a day; 0: no limit`],
  ],
];

describe('parsing of access rules', () => {
  for (const [what, lines, faults] of FAULTS)
    it(`an access rule is refused: ${what}`, () => {
      expect(faultsOf(rule(...lines))).to.deep.equal(faults);
    });

  for (const [what, lines, faults] of LIMIT_FAULTS)
    it(`a limit in an access file is refused: ${what}`, () => {
      const text = ['rules: []', 'limits:', '- name: l', ...lines.map((line) => `  ${line}`)].join('\n');
      expect(faultsOf(text)).to.deep.equal(faults);
    });

  it('rule names that are missing, not a text or duplicate are refused', () => {
    const body = '  who: {}\n  allow: [see]';
    const text = `rules:\n- who: {}\n  allow: [see]\n- name: a\n${body}\n- name: a\n${body}\n- name: 7\n${body}\n`;
    expect(faultsOf(text)).to.deep.equal([
      "2: rule 1: it has no name; add a 'name' that says what it is for",
      "7: rule 'a': line 4 has a rule of this name; give each a name of its own",
      "10: rule 4: 'name' has to be a text of one line and at most 200 characters",
    ]);
  });

  it('a text that is not a rules file is refused', () => {
    const none =
      "there are no rules; write 'rules:' and the rules below it, or 'rules: []' for nobody but the administrator";
    expect(faultsOf('')).to.deep.equal([`1: ${none}`]);
    expect(faultsOf('# nothing\n')).to.deep.equal([`1: ${none}`]);
    expect(faultsOf('limits:\n- { name: a, who: {}, sizeLimit: 1 }\n')).to.deep.equal([`1: ${none}`]);
    expect(faultsOf('- a\n')).to.deep.equal(['1: the file has to be made of keys: rules, limits, passwordPolicies']);
    expect(faultsOf('rules: yes\n')).to.deep.equal(["1: 'rules' has to be a list"]);
    expect(faultsOf('rulez: []\n')).to.deep.equal(["1: the file has no key 'rulez'; did you mean 'rules'?"]);
    expect(faultsOf('rules:\n- a\n')).to.deep.equal([
      '2: rule 1: a rule has to be made of keys: name, who, to, allow, deny',
      "2: rule 1: it does not say who; 'who: { users: true }' is whoever has bound, 'who: {}' everybody",
      "2: rule 1: it allows nothing and denies nothing; add 'allow' or 'deny'",
    ]);
    expect(faultsOf('rules: []\nrules: []\n')).to.deep.equal(["2: 'rules' is there already, in line 1; keep one"]);
  });

  it('a rules file that is too long, nested too deep or has too many rules is refused', () => {
    expect(faultsOf(`rules: []\n#${'x'.repeat(1024 * 1024)}`)).to.deep.equal([
      '1: the file has 1048587 bytes; at most 1048576 are read',
    ]);
    for (const open of ['[', '{a: ', '- '])
      expect(faultsOf(open.repeat(20_000))).to.deep.equal(['1: the file is nested too deep']);
    expect(faultsOf(`rules:\n${'- {}\n'.repeat(10_001)}`)).to.deep.equal([
      "1: 'rules' has 10001 items; at most 10000 are taken",
    ]);
  });

  it('all faults of a rules file are reported at once, in the order of the file', () => {
    const text = `rules:
- name: a
  who: { users: true }
  to: { attributes: [nothing] }
  allow: [reed]
- name: b
  allow: [view]
limits:
- name: c
  who: { users: true }
  timeLimit: soon
`;
    expect(faultsOf(text).map((fault) => fault.split(':', 2).join(':'))).to.deep.equal([
      "4: rule 'a'",
      "5: rule 'a'",
      "6: rule 'b'",
      "11: limit 'c'",
    ]);
  });

  it('every keyword of a rules file is parsed', () => {
    const { rules, limits } = parsed(`rules:
- name: all of who
  who:
    users: true
    self: true
    dn: [ "uid=a,o=x", "uid=b,o=x" ]
    subtree: ou=people,o=x
    group: cn=g,o=x
    attribute: [manager, uniqueMember]
    network: [10.0.0.0/8, 192.0.2.7, "2001:db8::/32", "::1"]
    strength: 128
    mechanism: SIMPLE
    not: { dn: "uid=c,o=x" }
  to:
    one: [ "ou=people,o=x", "ou=more,o=x" ]
    filter: [(cn=a), (sn=b)]
    attributes: ["*", "+", "@simpleSecurityObject", cn;lang-de, userPassword, entry, children]
  allow: [view, create]
  deny: write
- name: everybody
  who: {}
  allow: [see]
limits:
- { name: l, who: { anonymous: true }, sizeLimit: 10, timeLimit: 2 m, lookLimit: 1000, pageSize: 0, inFlight: 5 }
`);
    const [first, second] = rules;
    const { who, to } = first!;
    expect([first!.name, first!.line, who.users, who.self]).to.deep.equal(['all of who', 2, true, true]);
    expect(who.dn?.map(({ text }) => text)).to.deep.equal(['uid=a,o=x', 'uid=b,o=x']);
    expect([...who.subtree!, ...who.group!].map(({ text }) => text)).to.deep.equal(['ou=people,o=x', 'cn=g,o=x']);
    expect(who.attribute?.map(({ name }) => name)).to.deep.equal(['manager', 'uniqueMember']);
    expect(who.network?.map(({ address, prefix, family }) => [address, prefix, family])).to.deep.equal([
      ['10.0.0.0', 8, 'ipv4'],
      ['192.0.2.7', 32, 'ipv4'],
      ['2001:db8::', 32, 'ipv6'],
      ['::1', 128, 'ipv6'],
    ]);
    expect([who.strength, who.mechanism]).to.deep.equal([128, ['simple']]);
    expect(who.not?.[0]?.dn?.map(({ text }) => text)).to.deep.equal(['uid=c,o=x']);
    expect(to.place?.scope).to.equal('one');
    expect(to.place?.bases.map(({ text }) => text)).to.deep.equal(['ou=people,o=x', 'ou=more,o=x']);
    expect(to.filters?.map(({ text }) => text)).to.deep.equal(['(cn=a)', '(sn=b)']);
    const { types, descriptions, ...words } = to.attributes;
    expect(words).to.deep.equal({
      includesEntry: true,
      includesChildren: true,
      includesUser: true,
      includesOperational: true,
    });
    expect([...types].map(({ name }) => name))
      .to.include('objectClass')
      .and.not.to.include('userPassword');
    expect(descriptions.map(({ text }) => text)).to.deep.equal(['cn;lang-de', 'userPassword']);
    expect(rightsIn(first!.allow)).to.deep.equal(['see', 'read', 'search', 'compare', 'create']);
    expect(rightsIn(first!.deny)).to.deep.equal(['add', 'delete', 'replace']);
    expect(second!.who).to.deep.equal({});
    expect(second!.to.place).to.equal(undefined);
    const all = { includesEntry: true, includesChildren: true, includesUser: true, includesOperational: true };
    expect(second!.to.attributes).to.include(all);
    expect(limits.map(({ name, limits }) => [name, limits])).to.deep.equal([
      ['l', { sizeLimit: 10, timeLimit: 120, lookLimit: 1000, pageSize: 0, inFlight: 5 }],
    ]);
  });

  it('limits without names are numbered, and a strength of 0 is accepted', () => {
    const { rules, limits } = parsed(`rules:
- name: helpdesk resets passwords
  who: { group: "cn=helpdesk,ou=groups,dc=example,dc=com", strength: 128 }
  to: { subtree: "ou=people,dc=example,dc=com", filter: "(employeeType=staff)", attributes: [userPassword, pwdReset] }
  allow: [replace]
- { name: in the clear, who: { strength: 0 }, to: { attributes: [entry, children] }, allow: [moveIn, moveOut] }
limits:
- { name: first, who: {}, lookLimit: 5 }
- who: { group: "cn=services,ou=groups,dc=example,dc=com" }
  sizeLimit: 100000
- { who: {}, sizeLimit: 0 }
`);
    expect(rules.map(({ who }) => who.strength)).to.deep.equal([128, 0]);
    expect(rightsIn(rules[1]!.allow)).to.deep.equal(['moveIn', 'moveOut']);
    expect(limits.map(({ name, limits: { sizeLimit } }) => [name, sizeLimit])).to.deep.equal([
      ['first', undefined],
      ['limit 2', 100_000],
      ['limit 3', 0],
    ]);
    expect(faultsOf('rules: []\nlimits:\n- { who: {} }\n')[0]).to.match(/^3: limit 1: it limits nothing/);
  });

  it("'attribute' in a who clause includes subtypes", () => {
    const [one] = parsed(rule('who: { attribute: distinguishedName }', 'allow: [see]')).rules;
    expect(one!.who.attribute?.map(({ name }) => name)).to.include.members(['distinguishedName', 'member', 'owner']);
  });

  it('a right word is accepted if some of its rights fit the attributes', () => {
    for (const attributes of ['cn', 'entry', 'userPassword', 'entryDN'])
      expect(parsed(rule(USERS, `to: { attributes: [${attributes}] }`, 'allow: [view]')).rules).to.have.lengthOf(1);
  });

  it('password policies in a rules file are parsed', () => {
    const text = `rules: []
passwordPolicies:
- { name: all, policy: "cn=all,dc=example" }
- name: some
  policy: cn=some,dc=example
  to: { subtree: ["ou=a,dc=example", "ou=b,dc=example"], filter: "(cn=x)" }
  group: cn=g,dc=example
`;
    const [all, some] = parsed(text).passwordPolicies;
    expect(all!.policy.text).to.equal('cn=all,dc=example');
    expect(Object.keys(all!)).to.deep.equal(['name', 'line', 'policy']);
    expect(some!.subtrees!.map((dn) => dn.text)).to.deep.equal(['ou=a,dc=example', 'ou=b,dc=example']);
    expect(some!.filters!.map((filter) => filter.text)).to.deep.equal(['(cn=x)']);
    expect(some!.groups!.map((dn) => dn.text)).to.deep.equal(['cn=g,dc=example']);
  });

  it('faults in password policies of a rules file are reported', () => {
    const text = `rules: []
passwordPolicies:
- { name: a }
- { name: b, policy: [ "cn=a,dc=b", "cn=c,dc=d" ], who: { users: true } }
- { name: c, policy: "cn", to: { base: "dc=b", attributes: [cn] } }
- { name: c, policy: "cn=a", to: { filter: "(memberOf=cn=x)" } }
`;
    expect(faultsOf(text)).to.deep.equal([
      "3: password policy 'a': it names no policy; add 'policy', the DN of an entry of class pwdPolicy",
      "4: password policy 'b': a password policy has no key 'who'; it has name, policy, to, group",
      "4: password policy 'b': 'policy' has to be one DN",
      "5: password policy 'c': to has no key 'base'; it has subtree, filter",
      "5: password policy 'c': to has no key 'attributes'; it has subtree, filter",
      "5: password policy 'c': 'cn': invalid DN at byte 3: '=' expected after the attribute 'cn'",
      "6: password policy 'c': line 5 has a password policy of this name; give each a name of its own",
      "6: password policy 'c': filter (memberOf=cn=x): attribute 'memberOf' is worked out when it is asked for, and not for rules",
    ]);
  });

  it('a rules file without rules is accepted, for a directory of the administrator alone', () => {
    expect(parsed('rules: []\n')).to.deep.equal({ rules: [], limits: [], passwordPolicies: [] });
  });
});
