// File names, columns, tensors and servers' texts may hold escapes that move the cursor, change the title or
// turn the direction of text. Text is cleaned where it is printed: console is replaced once at the start, and
// all other output calls `clean`. tests/core/base/terminal_test.ts looks for ways past it.

/** Controls but for line ends and tabs, marks of direction, characters without a width, and tags. */
const UNSEEN =
  // deno-lint-ignore no-control-regex
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** JSON holds such characters only in strings, so the escape is valid there too. */
function shown(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x20) return `\\x${code.toString(16).padStart(2, "0")}`; // JSON has written these as \u already
  return [...Array(character.length).keys()]
    .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
}

/** Invisible characters are written out: "\x1b", "\u202e". Lines stay lines. */
export const clean = (text: string): string => text.replace(UNSEEN, shown);

/** This program's own colours stay; all other escapes are written out. */
export const cleanButColours = (text: string): string =>
  // deno-lint-ignore no-control-regex
  text.split(/(\x1b\[[0-9;]*m)/).map((part, i) => i % 2 === 1 ? part : clean(part)).join("");

export function cleanConsole(to: Pick<Console, "log" | "error" | "warn" | "info" | "debug"> = console): void {
  for (const name of ["log", "error", "warn", "info", "debug"] as const) {
    const print = to[name].bind(to);
    to[name] = (...parts: unknown[]) =>
      print(...parts.map((part) => clean(typeof part === "string" ? part : Deno.inspect(part))));
  }
}

/** A reader that has seen enough, such as head, is no error here, as it is none for console.log. */
export function printColoured(line: string): void {
  const bytes = new TextEncoder().encode(`${cleanButColours(line)}\n`);
  try {
    for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
