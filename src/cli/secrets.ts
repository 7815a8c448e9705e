import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { CliError } from './exit.js';

/** Longest password on standard input or in a password file, in bytes. */
const MAX_SECRET_BYTES = 64 * 1024;

/** Returns a password of 20 letters, digits, `-` and `_`, from 120 random bits. */
export function generatePassword(): string {
  return randomBytes(15).toString('base64url');
}

function checkSecret(secret: Buffer, origin: string): Buffer {
  if (secret.length === 0) throw new CliError(`${origin}: the password is empty`);
  if (secret.length > MAX_SECRET_BYTES)
    throw new CliError(`${origin}: the password is longer than ${MAX_SECRET_BYTES} bytes`);
  return secret;
}

/** Reads a password file. A line end at the end of the file, as editors add, is not part of the password. */
export function readPasswordFile(path: string): Buffer {
  return checkSecret(withoutLineEnd(readFileSync(path)), path);
}

/** Removes a LF, a CR or a CR and LF at the end. */
export function withoutLineEnd(bytes: Buffer): Buffer {
  let end = bytes.length;
  if (end > 0 && bytes[end - 1] === 0x0a) end--;
  if (end > 0 && bytes[end - 1] === 0x0d) end--;
  return bytes.subarray(0, end);
}

export async function readPasswordInput(): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (chunk.includes(0x0a) || length > MAX_SECRET_BYTES) break;
  }
  const line = Buffer.concat(chunks).toString('utf8').split(/\r?\n/, 1)[0]!;
  return checkSecret(Buffer.from(line), 'standard input');
}

/** Whether the command runs on a terminal and may ask questions. */
export function canPrompt(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

function readHidden(question: string): Promise<string> {
  const { stdin, stderr } = process;
  // Echo is off before the question appears, so that fast typing stays hidden.
  stdin.setEncoding('utf8').setRawMode(true).resume();
  stderr.write(question);
  let typedText = '';
  return new Promise((resolve, reject) => {
    const finishWith = (settle: () => void): void => {
      stdin.off('data', onData).setRawMode(false).pause();
      stderr.write('\n');
      settle();
    };
    const handleKey = (key: string): (() => void) | undefined => {
      if (key === '\r' || key === '\n') return () => resolve(typedText);
      if (key === '\x03' || key === '\x04') return () => reject(new CliError('no password was given'));
      if (key === '\x7f' || key === '\b') typedText = [...typedText].slice(0, -1).join('');
      else if (typedText.length < MAX_SECRET_BYTES) typedText += key;
      return undefined;
    };
    const onData = (text: string): void => {
      for (const key of text) {
        const settle = handleKey(key);
        if (settle) {
          finishWith(settle);
          break;
        }
      }
    };
    stdin.on('data', onData);
  });
}

export async function promptNewPassword(owner: string): Promise<Buffer> {
  const password = await readHidden(`New password for ${owner}: `);
  if (password === '') throw new CliError('the password is empty');
  if ((await readHidden('Once more: ')) !== password)
    throw new CliError('the two passwords differ; nothing was changed');
  return Buffer.from(password);
}
