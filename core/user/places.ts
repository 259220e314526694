// Where in a user's file an error came up. Files are imported as data: URLs, which a stack trace shows shortened to their
// first and last characters: the last 15 bytes of each are its number. Imports nothing of ours.

const known: string[] = [];

/** What stands for the file is the base64 of 15 bytes, which begin on a whole group of it. */
const FRAME = /data:text\/javascript;base64,\S*?([\w+/]{20}):(\d+):(\d+)/;

/** The URL that this code, of the file at `path`, is imported by. */
export function urlOf(code: string, path: string): string {
  const bytes = new TextEncoder().encode(code);
  const number = known.push(path) - 1;
  const filler = " ".repeat((3 - bytes.length % 3) % 3);
  const marker = new TextEncoder().encode(`${filler}\n//${String(number).padStart(12, "0")}`);
  const whole = new Uint8Array(bytes.length + marker.length);
  whole.set(bytes);
  whole.set(marker, bytes.length);
  return `data:text/javascript;base64,${whole.toBase64()}`;
}

export interface Place {
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

/** The innermost place in a user's file that is on this error's way; null where there is none. */
export function placeOf(error: unknown): Place | null {
  if (!(error instanceof Error)) return null;
  const found = FRAME.exec(error.stack ?? "");
  if (!found) return placeOf(error.cause);
  const [, marker, line, column] = found;
  const path = known[Number(atob(marker).slice(3))];
  return path === undefined ? null : { path, line: Number(line), column: Number(column) };
}
