import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { CliError } from './exit.js';

/** A line on standard input or a password file longer than this is not a password. */
const MAX_SECRET = 64 * 1024;

/** 20 letters, digits, `-` and `_`: 120 random bits. */
export function generatePassword(): string {
  return randomBytes(15).toString('base64url');
}

function checkSecret(secret: Buffer, where: string): Buffer {
  if (secret.length === 0) throw new CliError(`${where}: the password is empty`);
  if (secret.length > MAX_SECRET) throw new CliError(`${where}: the password is longer than ${MAX_SECRET} bytes`);
  return secret;
}

/** The file's bytes; one line end at the end, as editors leave it, is not part of the password. */
export function readPasswordFile(path: string): Buffer {
  const bytes = readFileSync(path);
  let end = bytes.length;
  if (end > 0 && bytes[end - 1] === 0x0a) end--;
  if (end > 0 && bytes[end - 1] === 0x0d) end--;
  return checkSecret(bytes.subarray(0, end), path);
}

/** The first line of standard input. */
export async function readPasswordInput(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (chunk.includes(0x0a) || length > MAX_SECRET) break;
  }
  const line = Buffer.concat(chunks).toString('utf8').split(/\r?\n/, 1)[0]!;
  return checkSecret(Buffer.from(line), 'standard input');
}

/** Whether a person can be asked. */
export function canPrompt(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Reads one line from the terminal without showing it. Ctrl-C and Ctrl-D end it with an error. */
function readHidden(question: string): Promise<string> {
  const { stdin, stderr } = process;
  // What is typed as soon as the question shows is hidden already.
  stdin.setEncoding('utf8').setRawMode(true).resume();
  stderr.write(question);
  let typed = '';
  return new Promise((resolve, reject) => {
    const finish = (end: () => void): void => {
      stdin.off('data', onData).setRawMode(false).pause();
      stderr.write('\n');
      end();
    };
    const press = (key: string): (() => void) | undefined => {
      if (key === '\r' || key === '\n') return () => resolve(typed);
      if (key === '\x03' || key === '\x04') return () => reject(new CliError('no password was given'));
      if (key === '\x7f' || key === '\b') typed = [...typed].slice(0, -1).join('');
      else if (typed.length < MAX_SECRET) typed += key;
      return undefined;
    };
    const onData = (text: string): void => {
      for (const key of text) {
        const end = press(key);
        if (end) {
          finish(end);
          break;
        }
      }
    };
    stdin.on('data', onData);
  });
}

/** Asks twice on the terminal. */
export async function promptNewPassword(what: string): Promise<Buffer> {
  const first = await readHidden(`New password for ${what}: `);
  if (first === '') throw new CliError('the password is empty');
  if ((await readHidden('Once more: ')) !== first) throw new CliError('the two passwords differ; nothing was changed');
  return Buffer.from(first);
}
