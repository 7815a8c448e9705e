import type { Control } from './ldap-messages.js';
import type { Reader } from './reader.js';
import { BOOLEAN, CONTROLS, OCTET_STRING, SEQUENCE } from './tags.js';

const NO_CONTROLS: readonly Control[] = [];

/** Decodes `controls [0]` of an LDAPMessage, if present (RFC 4511 §4.1.11). */
export function decodeControls(reader: Reader, maxControls: number): readonly Control[] {
  if (reader.peek() !== CONTROLS) return NO_CONTROLS;
  const outerEnd = reader.enter(CONTROLS, 'controls');
  const controls: Control[] = [];
  while (reader.at < reader.end) {
    if (controls.length === maxControls) throw reader.refusal(`message has over ${maxControls} controls`);
    controls.push(decodeControl(reader));
  }
  reader.leave(outerEnd, 'controls');
  return controls;
}

function decodeControl(reader: Reader): Control {
  const outerEnd = reader.enter(SEQUENCE, 'control');
  const oid = reader.oid('control type');
  const critical = reader.peek() === BOOLEAN && reader.boolean('control criticality');
  const value = reader.peek() === OCTET_STRING ? reader.bytes('control value') : undefined;
  reader.leaveSequence(outerEnd, 'control');
  return { oid, critical, value };
}
