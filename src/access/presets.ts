import type { Schema } from '../schema/schema.js';

const USERS_READ = `  - name: users read
    who: { users: true }
    allow: [view]
`;
const OWN_PASSWORD = `  - name: own password
    who: { self: true }
    to: { attributes: [userPassword] }
    allow: [compare, write]
`;

/** Sets of rules for a new directory (`rowan init --access`). */
export const PRESETS = {
  'users-read': `# Users read all but secrets, and change their own password.
rules:
${USERS_READ}${OWN_PASSWORD}`,
  'anybody-reads': `# Anybody reads all but secrets, without a bind, too. Users change their own password.
rules:
  - name: anybody reads
    who: {}
    allow: [view]
${OWN_PASSWORD}`,
  'self-service': `# Users read all but secrets, and change their own password and particulars.
rules:
${USERS_READ}${OWN_PASSWORD}  - name: own particulars
    who: { self: true }
    to:
      attributes:
        - telephoneNumber
        - mobile
        - jpegPhoto
        - labeledURI
        - sshPublicKey
        - postalAddress
        - preferredLanguage
    allow: [write]
`,
  closed: `# Users read themselves alone, and change their own password.
rules:
  - name: own entry
    who: { self: true }
    allow: [view]
${OWN_PASSWORD}`,
} as const;

export type Preset = keyof typeof PRESETS;

/** The rules of a directory that was created without `--access`. */
export const DEFAULT_PRESET: Preset = 'users-read';

/** Returns the text of a preset, without attributes that the schema lacks. */
export function presetText(preset: Preset, schema: Schema): string {
  const isKnown = (line: string) => {
    const attribute = /^ {8}- (\w+)$/.exec(line)?.[1];
    return attribute === undefined || schema.attribute(attribute) !== undefined;
  };
  return PRESETS[preset].split('\n').filter(isKnown).join('\n');
}
