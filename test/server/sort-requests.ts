import { writeSequence } from '../../src/protocol/asn1.js';
import { decodePagedResults, encodePagedResults } from '../../src/protocol/controls/paged-results.js';
import type { RequestedSortKey } from '../../src/protocol/controls/sort.js';
import type { Control } from '../../src/protocol/ldap-messages.js';
import { ControlOid } from '../../src/protocol/oids.js';
import { Reader } from '../../src/protocol/reader.js';
import {
  constructedContextTag,
  contextTag,
  ENUMERATED,
  INTEGER,
  OCTET_STRING,
  SEQUENCE,
} from '../../src/protocol/tags.js';
import type { Answer } from './raw-client.js';

/** Keys as ldapsearch writes them: `-sn:caseExactOrderingMatch` is reversed and names a rule. */
export function sortControl(keys: string, critical = true): Control {
  const value = writeSequence((writer) => {
    for (const { attribute, rule, isReverse } of keys.split('/').map(parseKey)) {
      const element = writer.begin(SEQUENCE);
      writer.text(OCTET_STRING, attribute);
      if (rule !== undefined) writer.text(contextTag(0), rule);
      if (isReverse) writer.boolean(contextTag(1), true);
      writer.end(element);
    }
  });
  return { oid: ControlOid.sortRequest, critical, value };
}

export function parseKey(text: string): RequestedSortKey {
  const [attribute, rule] = text.replace(/^-/, '').split(':');
  return { attribute: attribute!, rule, isReverse: text.startsWith('-') };
}

export function pageControl(size: number, cookie: Buffer): Control {
  return { oid: ControlOid.pagedResults, critical: true, value: encodePagedResults({ size, cookie }) };
}

export function cookieOf(answer: Answer): Buffer {
  return decodePagedResults(controlValue(answer, ControlOid.pagedResults)).cookie;
}

/** A window around an offset of a list of `count` entries, or around the first entry from a value on. */
export function windowControl(
  before: number,
  after: number,
  target: [offset: number, count: number] | string,
): Control {
  const value = writeSequence((writer) => {
    writer.integer(INTEGER, before);
    writer.integer(INTEGER, after);
    if (typeof target === 'string') return writer.text(contextTag(1), target);
    const element = writer.begin(constructedContextTag(0));
    for (const number of target) writer.integer(INTEGER, number);
    writer.end(element);
  });
  return { oid: ControlOid.virtualListRequest, critical: true, value };
}

export function controlValue(answer: Answer, oid: string): Buffer | undefined {
  return answer.controls.find((control) => control.oid === oid)?.value;
}

/** sortResult and attributeType of the response; undefined without one. */
export function sortResult(answer: Answer): { code: number; attribute: string | undefined } | undefined {
  const value = controlValue(answer, ControlOid.sortResponse);
  if (!value) return undefined;
  return { code: value[4]!, attribute: value.length > 5 ? value.toString('utf8', 7) : undefined };
}

/** Position of the target, number of entries and result of the response; undefined without one. */
export function windowResult(answer: Answer): { position: number; count: number; code: number } | undefined {
  const value = controlValue(answer, ControlOid.virtualListResponse);
  if (!value) return undefined;
  const reader = new Reader(value, 2, value.length);
  const [position, count] = [reader.integer('position'), reader.integer('count')];
  return { position, count, code: reader.integer('result', 0, 1000, ENUMERATED) };
}
