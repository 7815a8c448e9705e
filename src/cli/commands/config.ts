import type { Command } from 'commander';
import { formatConfig } from '../config/print.js';
import { addServerOptions, loadSettings } from '../options.js';

const EXAMPLES = `
Examples:
  What is in force, and where each setting comes from:
    rowan config --config /etc/rowan.yaml

  A file to begin with; it takes flags and ROWAN_ variables over, too:
    rowan config --listen ldap://0.0.0.0:389 --limits-connections 100 > rowan.yaml

A flag goes before a variable, a variable before the file, the file before the default.
`;

export function addConfig(program: Command): void {
  addServerOptions(program.command('config').description('print the settings in force and where they come from'))
    .addHelpText('after', EXAMPLES)
    .action((_options: object, command: Command) => {
      process.stdout.write(formatConfig(loadSettings(command)));
    });
}
