import { expect } from 'chai';
import { Attribute, type BerReader, Change, Client, Control, ResultCodeError } from 'ldapts';
import { SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';
import { rowanUnderPolicy, slapdUnderPolicy } from './policy-servers.js';
import { unboundId, unboundIdJar } from './unboundid.js';

const nameOf = (uid: string): string => `uid=${uid},${SUFFIX}`;

/** What a client learns of a bind, and of a search behind it: `code error | warning`, `code`. */
type Told = readonly string[];

/** A client as its users see it, in the words of UnboundID's tools. */
interface PolicyClient {
  readonly name: string;
  needs(context: Mocha.Context): void;
  bind(url: string, uid: string, password: string): Promise<Told>;
  change(url: string, uid: string, from: string, to: string): Promise<void>;
}

const ERRORS = ['password expired', 'account locked', 'change after reset'];
const HUNDRED_THOUSAND = 100_000;

function told(code: number, error: string | undefined, warning: string | undefined, value: number | undefined): string {
  const isTime = warning === 'time before expiration';
  const rounded = isTime ? `${Math.ceil(value! / HUNDRED_THOUSAND)}00000` : value;
  return `${code} ${error ?? 'None'} | ${warning === undefined ? 'None' : `${warning} ${rounded}`}`;
}

/** The control of draft-behera-ldap-password-policy-10 §6, as users of ldapts write it. */
class PasswordPolicyControl extends Control {
  error: string | undefined;
  warning: string | undefined;
  value: number | undefined;
  seen = false;

  constructor() {
    super('1.3.6.1.4.1.42.2.27.8.5.1');
  }

  override parseControl(reader: BerReader): void {
    this.seen = true;
    reader.readSequence();
    if (reader.peek() === 0xa0) {
      reader.readSequence(0xa0);
      const tag = reader.peek()!;
      this.warning = tag === 0x80 ? 'time before expiration' : 'grace logins remaining';
      this.value = reader.readTag(tag)!;
    }
    if (reader.peek() === 0x81) this.error = ERRORS[reader.readTag(0x81)!];
  }
}

const ldapts: PolicyClient = {
  name: 'ldapts',
  needs: () => undefined,
  async bind(url, uid, password) {
    const client = new Client({ url });
    const control = new PasswordPolicyControl();
    const code = await codeOf(client.bind(nameOf(uid), password, control));
    expect(control.seen, 'the control').to.equal(true);
    const bound = told(code, control.error, control.warning, control.value);
    const found = code === 0 ? [String(await codeOf(client.search(nameOf(uid), { scope: 'base' })))] : [];
    await client.unbind();
    return [bound, ...found];
  },
  async change(url, uid, from, to) {
    const client = new Client({ url });
    await client.bind(nameOf(uid), from);
    const modification = new Attribute({ type: 'userPassword', values: [to] });
    await client.modify(nameOf(uid), new Change({ operation: 'replace', modification }));
    await client.unbind();
  },
};

async function codeOf(answer: Promise<unknown>): Promise<number> {
  try {
    await answer;
    return 0;
  } catch (error) {
    if (error instanceof ResultCodeError) return error.code;
    throw error;
  }
}

function addressOf(url: string): string[] {
  const { hostname, port } = new URL(url);
  return ['-h', hostname, '-p', port];
}

const unboundid: PolicyClient = {
  name: 'UnboundID',
  needs(context) {
    needs(context, 'unboundid');
    unboundIdJar();
  },
  async bind(url, uid, password) {
    const asked = ['--usePasswordPolicyControl', '-b', nameOf(uid), '-s', 'base', '(objectClass=*)'];
    const ended = await unboundId('ldapsearch', [...addressOf(url), '-D', nameOf(uid), '-w', password, ...asked]);
    const said = `${ended.stdout}${ended.stderr}`;
    const word = (label: string) => new RegExp(`^# +${label}: +(.*)$`, 'm').exec(said)?.[1];
    const codes = [...said.matchAll(/^# +Result Code: +(\d+) /gm)].map((match) => match[1]!);
    const [error, warning] = ['Error Type', 'Warning Type'].map(word);
    expect(error, said).to.be.a('string');
    const bound = told(
      Number(codes[0]),
      error,
      warning === 'None' ? undefined : warning,
      Number(word('Warning Value')),
    );
    return [bound, ...codes.slice(1)];
  },
  async change(url, uid, from, to) {
    const args = [...addressOf(url), '-D', nameOf(uid), '-w', from, '-c', from, '-n', to];
    const ended = await unboundId('ldappasswordmodify', args);
    expect(ended.code, `${ended.stdout}${ended.stderr}`).to.equal(0);
  },
};

const CLIENTS = [ldapts, unboundid];

/** The same steps against Rowan and slapd, which are told alike. */
for (const server of [rowanUnderPolicy(), slapdUnderPolicy()]) {
  describe(`clients: password policy controls of ${server.name}`, () => {
    let url: string;

    before(async function () {
      server.needs(this);
      url = await server.start(CLIENTS.map(({ name }) => name));
    });
    after(() => server.remove());

    for (const client of CLIENTS) {
      describe(client.name, () => {
        before(function () {
          client.needs(this);
        });
        const bind = (kind: string, password: string) => client.bind(url, `${kind}-${client.name}`, password);

        it('warns of an expiry', async () => {
          expect(await bind('expiring', 'right')).to.deep.equal(['0 None | time before expiration 400000', '0']);
        });

        it('tells how many grace logins are left, and then that the password has expired', async () => {
          expect(await bind('expired', 'right')).to.deep.equal(['0 None | grace logins remaining 0', '0']);
          expect(await bind('expired', 'right')).to.deep.equal(['49 password expired | None']);
        });

        it('asks for a change after a reset', async () => {
          expect(await bind('reset', 'right')).to.deep.equal(['0 change after reset | None', '50']);
          await client.change(url, `reset-${client.name}`, 'right', 'my own');
          expect(await bind('reset', 'my own')).to.deep.equal(['0 None | None', '0']);
        });

        it('tells of a lock by failures', async () => {
          for (let i = 0; i < 3; i++)
            expect(await ldapts.bind(url, `locked-${client.name}`, 'no')).to.deep.equal(['49 None | None']);
          expect(await bind('locked', 'right')).to.deep.equal(['49 account locked | None']);
        });
      });
    }
  });
}
