import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Command } from 'commander';
import {
  addSettingFlags,
  ConfigError,
  type ConfigSources,
  flagValues,
  loadConfig,
} from '../../src/cli/config/index.js';
import { formatConfig } from '../../src/cli/config/load.js';
import { makeConfig, settingFlag, settingNames, settingVariable } from '../../src/server/settings/index.js';
import { settingsTable, spellingsTable } from './settings-tables.js';

function problems(sources: ConfigSources): readonly string[] {
  try {
    loadConfig(sources);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('configuration', () => {
  let folder: string;
  const file = (text: string): string => {
    const path = join(folder, 'rowan.yaml');
    writeFileSync(path, text);
    return path;
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-config-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('has safe defaults, nested as in the file', () => {
    const { config, origins } = loadConfig();
    expect(config).to.deep.equal(makeConfig());
    expect(config.aliases.dereference).to.equal(true);
    expect(config.listen).to.deep.equal(['ldap://127.0.0.1:1389']);
    expect(config.passwords.argon2).to.deep.equal({ memoryKiB: 19_456, timeCost: 2, parallelism: 1 });
    expect(config.limits.search.sizeLimit).to.equal(10_000);
    expect(config.tls.cert).to.equal(undefined);
    expect([...new Set(origins.values())]).to.deep.equal(['default']);
  });

  it('reads permissions as their octal digits stand there', () => {
    for (const text of ['660', '0660', '0o660', '"660"']) {
      expect(loadConfig({ file: file(`ldapi:\n  mode: ${text}\n`) }).config.ldapi.mode).to.equal('660');
    }
    expect(loadConfig({ env: { ROWAN_LDAPI_MODE: '600' } }).config.ldapi.mode).to.equal('600');
    for (const text of ['680', '0x1b0', 'rw', '77777']) {
      expect(problems({ file: file(`ldapi:\n  mode: ${text}\n`) })).to.deep.equal([
        'rowan.yaml:2: ldapi.mode must be three octal digits, such as 660',
      ]);
    }
  });

  it('takes flags over variables over the file over defaults, and knows where from', () => {
    const path = file(
      'listen: ldap://127.0.0.1:1\naliases:\n  dereference: false\n\nlimits:\n  connections: 5\n  controls: 7\n',
    );
    const { config, origins } = loadConfig({
      file: path,
      env: { ROWAN_LIMITS_CONNECTIONS: '6', ROWAN_LIMITS_CONTROLS: '8', PATH: '/bin' },
      flags: { 'limits.controls': '9' },
    });
    expect(config.listen).to.deep.equal(['ldap://127.0.0.1:1']);
    expect(config.aliases.dereference).to.equal(false);
    expect([config.limits.connections, config.limits.controls]).to.deep.equal([6, 9]);
    expect(origins.get('listen')).to.equal('rowan.yaml:1');
    expect(origins.get('aliases.dereference')).to.equal('rowan.yaml:3');
    expect(origins.get('limits.connections')).to.equal('ROWAN_LIMITS_CONNECTIONS');
    expect(origins.get('limits.controls')).to.equal('--limits-controls');
    expect(origins.get('limits.filterDepth')).to.equal('default');
    expect(loadConfig({ env: { ROWAN_CONFIG: path } }).config.limits.connections).to.equal(5);
  });

  it('understands units, lists, booleans and paths', () => {
    const path = file(
      'limits:\n  messageBytes: 2 MiB\n  unsentBytes: 100000\n  idleSeconds: 15 m\nhistory: {changesDays: 48 h, deletedDays: 7}\n' +
        'schema:\n  folders: my own\npasswords: {upgradeAtBind: false}\ntls: {cert: a.pem, key: b.pem}\n',
    );
    const { config } = loadConfig({
      file: path,
      env: { ROWAN_LISTEN: 'ldap://127.0.0.1:1, ldapi://%2ftmp%2fs', ROWAN_PASSWORDS_REQUIRE_TLS: 'yes' },
      flags: { 'credentialCache.enabled': false, data: 'd' },
    });
    expect(config.limits.messageBytes).to.equal(2 * 1024 * 1024);
    expect(config.limits.unsentBytes).to.equal(100_000);
    expect(config.limits.idleSeconds).to.equal(900);
    expect(config.history).to.deep.equal({ changesDays: 2, deletedDays: 7 });
    expect(config.schema.folders).to.deep.equal([join(folder, 'my own')]);
    const folders = loadConfig({ env: { ROWAN_SCHEMA_FOLDERS: '/a b, /c' } }).config.schema.folders;
    expect(folders).to.deep.equal(['/a b', '/c']);
    expect(problems({ env: { ROWAN_LIMITS_MESSAGE_BYTES: '3 constructor' } })).to.have.length(1);
    expect(config.tls.cert).to.equal(join(folder, 'a.pem'));
    expect(config.listen).to.deep.equal(['ldap://127.0.0.1:1', 'ldapi://%2ftmp%2fs']);
    expect(config.passwords.upgradeAtBind).to.equal(false);
    expect(config.passwords.requireTls).to.equal(true);
    expect(config.credentialCache.enabled).to.equal(false);
    expect(config.data).to.equal(resolve('d'));
  });

  it('names file, line and key of every mistake', () => {
    const path = file(
      '# settings\nlimits:\n  mesageBytes: 1\n  connections: many\n  controls: 2\n  idleSeconds: 1 week\n  search: 5\naliase:\n  dereference: true\n' +
        'log:\n  level: loud\n  format:\nlisten: [http://x]\npasswords:\n  requireTls: "yes"\n',
    );
    expect(problems({ file: path })).to.deep.equal([
      "rowan.yaml:3: limits.mesageBytes is not a setting; did you mean 'limits.messageBytes'?",
      'rowan.yaml:4: limits.connections must be a whole number',
      'rowan.yaml:5: limits.controls must be 4 to 1000',
      'rowan.yaml:6: limits.idleSeconds must be a number, or one like "90 s", "15 m", "2 h" or "30 d"',
      'rowan.yaml:7: limits.search must be a group of settings',
      "rowan.yaml:8: aliase is not a setting; did you mean 'aliases'?",
      'rowan.yaml:11: log.level must be one of fatal, error, warn, info, debug, trace',
      'rowan.yaml:12: log.format has no value',
      'rowan.yaml:13: listen must be URLs like ldap://127.0.0.1:389, ldaps://[::]:636 or ldapi://%2frun%2frowan%2fldapi, not "http://x"',
      'rowan.yaml:15: passwords.requireTls must be true or false',
    ]);
    expect(problems({ env: { ROWAN_LIMITS_IDLE_SECONDS: '-1' }, flags: { 'log.format': 'xml' } })).to.deep.equal([
      'ROWAN_LIMITS_IDLE_SECONDS must be a number, or one like "90 s", "15 m", "2 h" or "30 d"',
      '--log-format must be one of pretty, json',
    ]);
  });

  it('names the line where the YAML itself is wrong', () => {
    expect(problems({ file: file('listen: x\nlisten: y\n') })[0]).to.match(/^rowan\.yaml:2: .*unique/);
    expect(problems({ file: file('limits:\n  a: [1\nb: 2\n') })[0]).to.match(/^rowan\.yaml:\d: /);
    expect(problems({ file: file('- a\n- b\n') })).to.deep.equal([
      'rowan.yaml:1: must be settings, one a line, like "listen: …"',
    ]);
    expect(problems({ file: file('') })).to.deep.equal([]);
    expect(problems({ file: file('# nothing\nlimits:\n') })).to.deep.equal([]);
    expect(() => loadConfig({ file: join(folder, 'none.yaml') })).to.throw('ENOENT');
  });

  it('finds settings that contradict each other', () => {
    expect(problems({ file: file('tls:\n  cert: a.pem\n') })).to.deep.equal(['rowan.yaml:2: tls.cert needs tls.key']);
    expect(problems({ flags: { listen: ['ldaps://127.0.0.1:636'] } })).to.deep.equal([
      '--listen has an ldaps:// URL, which needs tls.cert and tls.key',
    ]);
    expect(problems({ flags: { data: 'd', store: 'hbase://a' } })).to.deep.equal(['--store cannot stand beside data']);
    expect(problems({ flags: { store: 'http://a', 'hbase.rest': 'a:1' } })).to.deep.equal([
      '--store must be an address like hbase://HOST:PORT,HOST:PORT/PREFIX',
      '--hbase-rest must be the URL of a REST gateway, like http://HOST:8080, or none',
    ]);
    const parallel = { ROWAN_PASSWORDS_ARGON2_PARALLELISM: '16', ROWAN_PASSWORDS_ARGON2_MEMORY_KIB: '64' };
    expect(problems({ env: parallel })[0]).to.match(/^ROWAN_PASSWORDS_ARGON2_MEMORY_KIB does not fit/);
  });

  it('warns of variables that are no settings', () => {
    const { warnings } = loadConfig({ env: { ROWAN_LISTN: 'x', ROWAN_ADMIN_PASSWORD: 'y', OTHER: 'z' } });
    expect(warnings).to.deep.equal(["ROWAN_LISTN is not a setting; did you mean 'ROWAN_LISTEN'?"]);
  });

  it('spells each flag and variable in a way of its own', () => {
    expect(settingFlag('passwords.argon2.memoryKiB')).to.equal('--passwords-argon2-memory-kib');
    expect(settingVariable('passwords.argon2.memoryKiB')).to.equal('ROWAN_PASSWORDS_ARGON2_MEMORY_KIB');
    expect(settingFlag('tls.minVersion')).to.equal('--tls-min-version');
    expect(new Set(settingNames.map(settingFlag)).size).to.equal(settingNames.length);
    expect(new Set(settingNames.map(settingVariable)).size).to.equal(settingNames.length);
  });

  it('takes flags from a command line', () => {
    const command = addSettingFlags(new Command().option('--data <dir>', 'own description'));
    command.parse(
      [
        '--listen',
        'ldap://127.0.0.1:1',
        '--listen',
        'ldap://127.0.0.1:2',
        '--data',
        'x',
        '--passwords-require-tls',
        '--limits-message-bytes',
        '1MiB',
      ],
      { from: 'user' },
    );
    const flags = flagValues(command);
    expect(flags).to.deep.equal({
      data: 'x',
      listen: ['ldap://127.0.0.1:1', 'ldap://127.0.0.1:2'],
      'passwords.requireTls': true,
      'limits.messageBytes': '1MiB',
    });
    expect(loadConfig({ flags }).config.limits.messageBytes).to.equal(1024 * 1024);
  });

  it('prints what is in force so that it reads back the same', () => {
    const loaded = loadConfig({
      flags: { data: folder, 'limits.messageBytes': '1 MiB' },
      env: { ROWAN_LOG_LEVEL: 'warn' },
    });
    const text = formatConfig(loaded);
    expect(text).to.include('  messageBytes: 1 MiB # --limits-message-bytes\n');
    expect(text).to.include('  level: warn # ROWAN_LOG_LEVEL\n');
    expect(text).to.include('  # cert: not set\n');
    expect(loadConfig({ file: file(text) }).config).to.deep.equal(loaded.config);
    expect(loadConfig({ file: file(formatConfig(loadConfig())) }).config).to.deep.equal(loadConfig().config);
  });

  it('is documented in full: docs/configuration.md has the tables as they are generated', () => {
    const path = fileURLToPath(new URL('../../../docs/configuration.md', import.meta.url));
    let text = readFileSync(path, 'utf8');
    const tables = { settings: settingsTable(), spellings: spellingsTable() };
    if (process.env.ROWAN_UPDATE_DOCS) {
      for (const [name, table] of Object.entries(tables)) {
        const section = new RegExp(`<!-- ${name} -->[^]*<!-- /${name} -->`);
        text = text.replace(section, () => `<!-- ${name} -->\n${table}<!-- /${name} -->`);
      }
      writeFileSync(path, text);
    }
    for (const [name, table] of Object.entries(tables)) {
      expect(text, 'run the test with ROWAN_UPDATE_DOCS=1').to.include(`<!-- ${name} -->\n${table}<!-- /${name} -->`);
    }
  });
});
