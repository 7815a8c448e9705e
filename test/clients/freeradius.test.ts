import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import {
  ADA,
  ADMIN,
  type Ended,
  exited,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
} from '../cli/rowan.js';
import { needs } from '../require.js';

const BRAM = `uid=bram,${PEOPLE}`;
const SHARED = 'testing123';
const GROUP = `cn=vpn,ou=groups,${SUFFIX}`;

/** The configuration of the `ldap` module as Debian has it, in which the directory is named, and nothing else. */
function moduleOf(ldap: URL): string {
  const given = readFileSync('/etc/freeradius/3.0/mods-available/ldap', 'utf8');
  const edits: readonly [RegExp, string][] = [
    [/^\tserver = .*$/m, `\tserver = '${ldap.href}'`],
    [/^#\tidentity = .*$/m, `\tidentity = '${ADMIN}'`],
    [/^#\tpassword = .*$/m, `\tpassword = '${PASSWORD}'`],
    [/^\tbase_dn = .*$/m, `\tbase_dn = '${SUFFIX}'`],
  ];
  return edits.reduce((text, [line, edited]) => {
    expect(text, String(line)).to.match(line);
    return text.replace(line, () => edited);
  }, given);
}

/** `radiusd.conf` of a server that tells of groups in its reply. */
function configuration(folder: string, port: number, ldap: URL): string {
  return `
prefix = /usr
libdir = /usr/lib/freeradius
raddbdir = ${folder}
run_dir = ${folder}
logdir = ${folder}
pidfile = ${folder}/radiusd.pid
security { allow_vulnerable_openssl = yes }
thread pool {
  start_servers = 1
  min_spare_servers = 1
  max_servers = 2
  max_spare_servers = 1
}
modules {
  pap { }
  ${moduleOf(ldap)}
}
server default {
  client here {
    ipaddr = 127.0.0.1
    secret = ${SHARED}
  }
  listen {
    type = auth
    ipaddr = 127.0.0.1
    port = ${port}
  }
  authorize {
    ldap
    if ((ok || updated) && User-Password) {
      update control { Auth-Type := ldap }
    }
    if (&LDAP-Group == "${GROUP}") {
      update reply { Filter-Id := "vpn" }
    }
    if (&LDAP-Group == "vpn") {
      update reply { Callback-Id := "vpn" }
    }
    if (&LDAP-Group == "outer") {
      update reply { Connect-Info := "outer" }
    }
  }
  authenticate {
    Auth-Type LDAP {
      ldap
    }
  }
}
`;
}

async function freePort(): Promise<number> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  return port;
}

/** FreeRADIUS, whose users and groups are those of the directory. */
describe('clients: FreeRADIUS', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;
  let radius: ChildProcess;
  let port: number;

  before(async function () {
    needs(this, 'freeradius');
    await sandbox.initSample();
    server = await sandbox.serve();
    port = await freePort();
    const folder = sandbox.path('radius');
    mkdirSync(folder);
    writeFileSync(`${folder}/radiusd.conf`, configuration(folder, port, new URL(server.url)));
    radius = spawn('freeradius', ['-f', '-l', 'stdout', '-d', folder, '-D', '/usr/share/freeradius'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let told = '';
    await new Promise<void>((resolve, reject) => {
      radius.stdout!.on('data', (text) => {
        told += text;
        if (told.includes('Ready to process requests')) resolve();
      });
      radius.once('exit', () => reject(new Error(`freeradius ended: ${told}`)));
    });
  });
  after(async () => {
    if (radius) {
      radius.kill();
      await exited(radius);
    }
    await sandbox.remove();
  });

  async function answer(user: string, password: string): Promise<string> {
    const input = `User-Name = "${user}"\nUser-Password = "${password}"\n`;
    const { stdout, stderr }: Ended = await run(
      'radclient',
      ['-x', '-r', '1', '-t', '20', `127.0.0.1:${port}`, 'auth', SHARED],
      { input },
    );
    return stdout + stderr;
  }

  it('lets in who binds, and no other', async () => {
    await rowanDoes(['passwd', ADA, '--data', sandbox.data], { input: 'sesame\n' });
    expect(await answer('ada', 'sesame')).to.include('Received Access-Accept');
    expect(await answer('ada', 'wrong')).to.include('Received Access-Reject');
    expect(await answer('nobody', 'sesame')).to.include('Received Access-Reject');
    await rowanDoes(['account', 'lock', ADA, '--data', sandbox.data]);
    expect(await answer('ada', 'sesame')).to.include('Received Access-Reject');
    await rowanDoes(['account', 'unlock', ADA, '--data', sandbox.data]);
  });

  it('knows groups by name and by DN, groups in groups included, as it asks unless told otherwise', async () => {
    await rowanDoes(['passwd', BRAM, '--data', sandbox.data], { input: 'sesame\n' });
    const outer = `dn: cn=outer,ou=groups,${SUFFIX}\nobjectClass: groupOfNames\ncn: outer\nmember: ${GROUP}\n`;
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: outer });
    const told = async (user: string) =>
      [...(await answer(user, 'sesame')).matchAll(/\t(.*-.* = ".*")/g)].map(([, one]) => one);
    expect(await answer('ada', 'sesame')).to.include('Received Access-Accept');
    expect(await told('ada')).to.include.members([
      'Filter-Id = "vpn"',
      'Callback-Id = "vpn"',
      'Connect-Info = "outer"',
    ]);
    expect(await answer('bram', 'sesame'))
      .to.include('Access-Accept')
      .and.to.not.match(/Filter-Id|Callback-Id|Connect-Info/);
  });
});
