import { ResultCode } from '../../ldap/ldap-error.js';
import type { BindRequest } from '../../protocol/messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { OperationSource, requireConfidential } from '../request/access.js';
import type { Context } from '../request/context.js';
import { chain, type Maybe } from '../words/maybe.js';
import { type Outcome, outcome, SUCCESS } from '../words/outcome.js';
import { printable } from '../words/printable.js';
import { ANONYMOUS } from '../words/session.js';

/** One answer for every failure: it does not tell a wrong password from a user that does not exist. */
const REFUSED: Outcome = { code: ResultCode.invalidCredentials, matchedDN: '', message: 'wrong DN or password' };

const NOBODY = Buffer.alloc(16);

/**
 * RFC 4511 §4.2, RFC 4513 §5.1. Whatever comes of it, the identity of an earlier bind is gone. A failure costs the same
 * work whether the user exists or not (`PasswordVerifier`).
 */
export function bind(context: Context, request: BindRequest): Maybe<Outcome> {
  const { services, session } = context;
  session.identity = ANONYMOUS;
  const { version, name, authentication } = request;
  if (version !== 3) return outcome('protocolError', `LDAP version ${version} is not supported; 3 is`);
  if (authentication.method === 'sasl') {
    return outcome(
      'authMethodNotSupported',
      `SASL mechanism '${printable(authentication.mechanism)}' is not supported`,
    );
  }
  const { password } = authentication;
  if (password.length === 0) return bindWithoutPassword(name);
  requireConfidential(context);
  const dn = services.schema.parseDn(name);
  if (dn.norm.equals(services.admin.norm)) return bindAdmin(context, dn, password);
  return bindUser(context, dn, password);
}

/** RFC 4513 §5.1.1, §5.1.2: a DN without a password would be taken for success by careless applications. */
function bindWithoutPassword(name: string): Outcome {
  if (name === '') return SUCCESS;
  return outcome('unwillingToPerform', 'a bind with a DN needs a password (RFC 4513 §5.1.2)');
}

function bindAdmin(context: Context, dn: Dn, password: Buffer): Maybe<Outcome> {
  const { services, session } = context;
  return chain(services.partition.adminPassword(), (stored) =>
    chain(services.passwords.verifier.verify(NOBODY, [stored], password, new BindSource(context, dn)), (matched) => {
      if (!matched) return REFUSED;
      session.identity = { kind: 'admin', dn: services.partition.settings.adminDn, password: stored };
      return SUCCESS;
    }),
  );
}

/** What a cached credential is bound to: it is of no use after any change of the entry. */
function stateOf(id: Buffer, version: bigint): Buffer {
  const state = Buffer.allocUnsafe(id.length + 8);
  state.set(id, 0);
  state.writeBigInt64BE(version, id.length);
  return state;
}

/** Work for whoever is named. */
class BindSource extends OperationSource {
  readonly #dn: Dn;

  constructor(context: Context, dn: Dn) {
    super(context);
    this.#dn = dn;
  }

  get identity(): string {
    return this.#dn.norm.toString('latin1');
  }
}

function bindUser(context: Context, dn: Dn, password: Buffer): Maybe<Outcome> {
  const { services } = context;
  const generation = services.partition.treeGeneration;
  return chain(services.partition.findRow(dn), (found) => {
    const { version, passwords } = found ? services.credentials.ofRow(found.row) : { version: 0n, passwords: [] };
    const id = found?.id ?? NOBODY;
    const source = new BindSource(context, dn);
    return chain(services.passwords.verifier.verify(stateOf(id, version), passwords, password, source), (matched) => {
      if (!matched) return REFUSED;
      const copies = passwords.map((value) => Buffer.from(value));
      const name = found!.node.dn.toString();
      context.session.identity = { kind: 'user', dn: name, generation, id, version, passwords: copies };
      services.passwords.considerUpgrade(name, id, matched, password, passwords);
      return SUCCESS;
    });
  });
}
