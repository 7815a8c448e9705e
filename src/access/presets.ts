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

/** Rule files that a new directory may start with (`rowan init --access`). */
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

/** The preset of a directory for which no rules were set. */
export const DEFAULT_PRESET: Preset = 'users-read';

/** The rules of a preset without the attributes that are missing in the schema. */
export function presetText(preset: Preset, schema: Schema): string {
  const isKnown = (line: string) => {
    const attribute = /^ {8}- (\w+)$/.exec(line)?.[1];
    return attribute === undefined || schema.attribute(attribute) !== undefined;
  };
  return PRESETS[preset].split('\n').filter(isKnown).join('\n');
}
