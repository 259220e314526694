// Text on its way to a terminal. Names of files, arrays, columns, tensors and runs, and what servers say, may hold escapes
// that move the cursor, change the title or hide what follows, and marks that turn the direction of text round. So whatever
// is printed is cleaned here, at the last door, and not where it comes from: console is replaced once at the start, and
// what writes without it calls `clean` itself. tests/core/base/terminal_test.ts looks for ways past it.

/** Controls but for the end of a line and tabs, marks of direction, characters without a width, and tags. */
const UNSEEN =
  // deno-lint-ignore no-control-regex
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** As it may be written into a JSON text, too: what of this JSON would hold is in a string there. */
function shown(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x20) return `\\x${code.toString(16).padStart(2, "0")}`; // JSON has written these as \u already
  return [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
}

/** The same text with what can't be seen written out: "\x1b", "\u202e". Lines stay lines. */
export const clean = (text: string): string => text.replace(UNSEEN, shown);

/** The same for text that this program has coloured itself: colours stay, and nothing else that begins with an escape. */
export const cleanButColours = (text: string): string =>
  // deno-lint-ignore no-control-regex
  text.split(/(\x1b\[[0-9;]*m)/).map((part, i) => i % 2 === 1 ? part : clean(part)).join("");

/** From here on all that is printed by console is clean. */
export function cleanConsole(to: Pick<Console, "log" | "error" | "warn" | "info" | "debug"> = console): void {
  for (const name of ["log", "error", "warn", "info", "debug"] as const) {
    const print = to[name].bind(to);
    to[name] = (...parts: unknown[]) =>
      print(...parts.map((part) => clean(typeof part === "string" ? part : Deno.inspect(part))));
  }
}

/** A line with colours of this program's own. */
export function printColoured(line: string): void {
  const bytes = new TextEncoder().encode(`${cleanButColours(line)}\n`);
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}
