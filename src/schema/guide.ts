import { checkOid } from './syntax-text.js';

/** Checks Guide and Enhanced Guide (RFC 4517 §3.3.14, §3.3.10): suggested search attributes for a class. */

const MAX_GUIDE = 65536;

/** A whole term, or `!` or `(` at the beginning of a term. Spaces are allowed as in RFC 2252 §6.15. */
const TERM = / *(?:([!(])|\?(?:true|false)|(?:[a-z][a-z0-9-]*|\d+(?:\.\d+)+) *\$ *(?:eq|substr|ge|le|approx)) */iy;

/** Whether the text is made of terms, `&`, `|`, `!` and parentheses. Makes one pass at any nesting depth. */
function isCriteria(text: string): boolean {
  let depth = 0;
  for (let offset = 0; offset < text.length; ) {
    TERM.lastIndex = offset;
    const term = TERM.exec(text);
    if (!term) return false;
    offset = TERM.lastIndex;
    if (term[1] === '(') depth++;
    if (term[1]) continue;
    for (; text[offset] === ')' || text[offset] === ' '; offset++) if (text[offset] === ')') depth--;
    if (depth < 0) return false;
    if (offset === text.length) return depth === 0;
    if (text[offset] !== '&' && text[offset] !== '|') return false;
    offset++;
  }
  return false;
}

function isClass(text: string): boolean {
  return checkOid(Buffer.from(text.trim())) === undefined;
}

export function checkGuide(value: Buffer): string | undefined {
  if (value.length > MAX_GUIDE) return 'is too long';
  const sections = value.toString('latin1').split('#');
  const criteria = sections.pop()!;
  if (sections.length <= 1 && sections.every(isClass) && isCriteria(criteria)) return undefined;
  return 'is not a guide like person#sn$EQ';
}

export function checkEnhancedGuide(value: Buffer): string | undefined {
  if (value.length > MAX_GUIDE) return 'is too long';
  const [className, criteria, subset, ...extraSections] = value.toString('latin1').split('#');
  const isSubset = subset !== undefined && /^ *(?:baseobject|oneLevel|wholeSubtree) *$/i.test(subset);
  if (isSubset && extraSections.length === 0 && isClass(className!) && isCriteria(criteria!)) return undefined;
  return 'is not an enhanced guide like person#(sn$EQ)#oneLevel';
}
