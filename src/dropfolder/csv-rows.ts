import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { CsvError, parse } from 'csv-parse';
import { DropError } from './layout.js';
import { readChunks } from './source.js';

const MAX_ROW_BYTES = 1024 * 1024;

export interface CsvRow {
  /** Line of the file on which the row ends. */
  readonly line: number;
  /** Values by the names of their columns. */
  readonly values: Readonly<Record<string, string>>;
}

/** Reads the file from its start. Throws `DropError` when it is not CSV. */
export async function* readRows(file: FileHandle, delimiter: string): AsyncGenerator<CsvRow> {
  let stream: Readable | undefined;
  try {
    const parser = parse({
      bom: true,
      columns: columnNames,
      delimiter,
      info: true,
      maxRecordSize: MAX_ROW_BYTES,
      skipEmptyLines: true,
    });
    stream = Readable.from(requireUtf8(readChunks(file)));
    stream.on('error', (error) => parser.destroy(error));
    for await (const { record, info } of stream.pipe(parser)) yield { line: info.lines, values: record };
  } catch (error) {
    // Only the code of the error is shown: its message may contain values.
    if (!(error instanceof CsvError)) throw error;
    const { lines } = error as { lines?: number };
    throw new DropError(`line ${lines ?? '?'} is not as in a CSV file (${error.code}); correct it`);
  } finally {
    stream?.destroy();
  }
}

/** Returns the names in the first row without blanks around them. Throws `DropError` when a name stands twice. */
function columnNames(cells: string[]): string[] {
  const columns = cells.map((cell) => cell.trim());
  const double = columns.find((name, i) => name !== '' && columns.indexOf(name) < i);
  if (double !== undefined) throw new DropError(`it has two columns '${double}'; give one another name`);
  return columns;
}

/** Yields the chunks unchanged. Throws `DropError` at the first chunk that is not UTF-8. */
async function* requireUtf8(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const check = (chunk?: Buffer): void => {
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
    } catch (error) {
      throw new DropError('it is not UTF-8; convert it with iconv', { cause: error });
    }
  };
  for await (const chunk of chunks) {
    check(chunk);
    yield chunk;
  }
  check();
}
