// Text that fits a number of terminal columns, with or without colours. Pure; imports nothing.

/** What the terminal can show. */
export interface Style {
  readonly colour: boolean;
  /** Lines and bars of Unicode; else ASCII. */
  readonly unicode: boolean;
}

/** The sixteen colours of every terminal, which its owner has chosen to be readable. */
const CODES = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 } as const;
export type Colour = keyof typeof CODES;

export function painted(text: string, colour: Colour | null, style: Style): string {
  return colour && style.colour && text !== "" ? `\x1b[${CODES[colour]}m${text}\x1b[0m` : text;
}

/** What a run calls itself, or says, must not move the cursor. */
export const harmless = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, " ");

const WIDE =
  /\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Emoji_Presentation}|[\u3000-\u303e\uff01-\uff60]/u;

function columnsOfOne(character: string): number {
  if (character < "\u0300") return 1;
  return /\p{M}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
}

// deno-lint-ignore no-control-regex
const PARTS = /\x1b\[[0-9;]*m|[^\x1b]/gu;

/** Columns that a text takes; colours take none. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const [part] of text.matchAll(PARTS)) if (part[0] !== "\x1b") columns += columnsOfOne(part);
  return columns;
}

/** Cut to so many columns, with a mark where something is missing; colours end where the text does. */
export function clip(text: string, width: number, style: Style): string {
  if (width <= 0) return "";
  if (columnsOf(text) <= width) return text;
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

/** Exactly so many columns. */
export function padded(text: string, width: number, style: Style): string {
  const cut = clip(text, width, style);
  return cut + " ".repeat(Math.max(0, width - columnsOf(cut)));
}

/** One text at the left, one at the right; the right one goes first where there is no room. */
export function spread(left: string, right: string, width: number, style: Style): string {
  const room = width - columnsOf(right) - 2;
  if (room < Math.min(12, columnsOf(left))) return padded(left, width, style);
  return padded(left, room, style) + "  " + right;
}

/** Parts from left to right as far as they fit; each is dropped whole. */
export function fitted(parts: readonly string[], between: string, width: number): string {
  let line = "";
  for (const part of parts.filter((part) => part !== "")) {
    const next = line === "" ? part : line + between + part;
    if (columnsOf(next) > width) break;
    line = next;
  }
  return line;
}
