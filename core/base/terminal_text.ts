// Text as a terminal shows it: its colours, its width in columns, and how it is cut, filled and folded to one.

export interface TextStyle {
  readonly colour: boolean;
  /** ASCII is used where it is false. */
  readonly unicode: boolean;
}

/** As the environment asks: NO_COLOR, and a locale without UTF-8. `terminal` says whether the output is one. */
export function styleOf(terminal: boolean, env = (name: string) => Deno.env.get(name)): TextStyle {
  const locale = env("LC_ALL") || env("LC_CTYPE") || env("LANG") || "";
  return {
    colour: terminal && !env("NO_COLOR") && env("TERM") !== "dumb",
    // No locale at all is what containers and batch jobs have, on terminals that know Unicode all the same.
    unicode: locale === "" || /utf-?8/i.test(locale),
  };
}

/** Every terminal lets its owner choose these sixteen colours. */
const CODES = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 } as const;
export type Colour = keyof typeof CODES;

export function painted(text: string, colour: Colour | null, style: TextStyle): string {
  return colour && style.colour && text !== "" ? `\x1b[${CODES[colour]}m${text}\x1b[0m` : text;
}

/** Names and messages of runs must not move the cursor. */
export const harmless = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, " ");

const WIDE =
  /\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Emoji_Presentation}|[\u3000-\u303e\uff01-\uff60]/u;

function columnsOfOne(character: string): number {
  if (character < "\u0300") return 1;
  return /\p{M}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
}

// deno-lint-ignore no-control-regex
const PARTS = /\x1b\[[0-9;]*m|[^\x1b]/gu;

export function terminalWidthOf(text: string): number {
  let columns = 0;
  for (const [part] of text.matchAll(PARTS)) if (part[0] !== "\x1b") columns += columnsOfOne(part);
  return columns;
}

/** Marks the cut; colours end with the text. */
export function clipText(text: string, width: number, style: TextStyle): string {
  if (width <= 0) return "";
  if (terminalWidthOf(text) <= width) return text;
  const mark = style.unicode ? "…" : "~";
  let out = "", columns = 0, open = false;
  for (const [part] of text.matchAll(PARTS)) {
    if (part[0] === "\x1b") {
      out += part;
      open = part !== "\x1b[0m";
      continue;
    }
    const wide = columnsOfOne(part);
    if (columns + wide > width - 1) break;
    out += part;
    columns += wide;
  }
  return out + (open ? "\x1b[0m" : "") + mark;
}

export function padded(text: string, width: number, style: TextStyle): string {
  const cut = clipText(text, width, style);
  return cut + " ".repeat(Math.max(0, width - terminalWidthOf(cut)));
}

/** The right text is dropped where space is short. */
export function spreadText(left: string, right: string, width: number, style: TextStyle): string {
  const room = width - terminalWidthOf(right) - 2;
  if (room < Math.min(12, terminalWidthOf(left))) return padded(left, width, style);
  return padded(left, room, style) + "  " + right;
}

/** A part that does not fit is dropped whole. */
export function fitted(parts: readonly string[], between: string, width: number): string {
  let line = "";
  for (const part of parts.filter((part) => part !== "")) {
    const next = line === "" ? part : line + between + part;
    if (terminalWidthOf(next) > width) break;
    line = next;
  }
  return line;
}

/** Words that do not fit go to lines of their own, which are indented; a longer word stays whole. */
export function wrappedText(text: string, width: number, indent = "  "): string[] {
  if (terminalWidthOf(text) <= width) return [text];
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const next = line === "" ? word : `${line} ${word}`;
    if (line.trim() === "" || terminalWidthOf(next) <= width) line = next;
    else {
      lines.push(line);
      line = indent + word;
    }
  }
  return [...lines, line];
}
