import { cleanButColours } from "../../base/terminal.ts";

interface Screen {
  /** Sends only the lines that differ. Lines must have the screen's width. */
  draw(lines: readonly string[]): void;
  /** Call it after a resize, or when another program used the terminal. */
  stale(): void;
  size(): { width: number; height: number };
  close(): void;
}

const ESC = "\x1b[";
const ENTER = `${ESC}?1049h${ESC}?25l${ESC}?7l${ESC}2J`;
const LEAVE = `${ESC}?7h${ESC}?25h${ESC}?1049l`;
/** Terminals that know these sequences show everything between them at once. */
const [BEGIN, END] = [`${ESC}?2026h`, `${ESC}?2026l`];

export function openScreen(write: (text: string) => void = writeAll): Screen {
  let shown: readonly string[] = [];
  let entered = false;
  return {
    draw(given) {
      const lines = given.map(cleanButColours);
      const out = [entered ? "" : ENTER];
      entered = true;
      lines.forEach((line, i) => {
        if (line !== shown[i]) out.push(`${ESC}${i + 1};1H${line}`);
      });
      shown = [...lines];
      if (out.join("") !== "") write(BEGIN + out.join("") + END);
    },
    stale() {
      shown = [];
      entered = false;
    },
    size() {
      try {
        const { columns, rows } = Deno.consoleSize();
        return { width: columns || 80, height: rows || 24 };
      } catch {
        return { width: 80, height: 24 };
      }
    },
    close() {
      if (entered) write(LEAVE);
      entered = false;
    },
  };
}

function writeAll(text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}

/** Returns false where there are no keys (a pipe). */
export function readKeys(pressed: (key: string) => void): boolean {
  if (!Deno.stdin.isTerminal()) return false;
  Deno.stdin.setRaw(true, { cbreak: true }); // Ctrl-C and Ctrl-Z stay signals
  const bytes = new Uint8Array(64);
  const next = () =>
    Deno.stdin.read(bytes).then((got) => {
      if (got === null) return;
      pressed(new TextDecoder().decode(bytes.subarray(0, got)));
      next();
    }).catch(() => {}); // the terminal went away
  next();
  return true;
}

export function leaveKeys(): void {
  try {
    if (Deno.stdin.isTerminal()) Deno.stdin.setRaw(false);
  } catch {
    // the terminal went away
  }
}

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

/** The columns of the terminal; where the output is none, COLUMNS says them, or it is `otherwise`. */
export function widthOf(otherwise: number): number {
  if (Deno.stdout.isTerminal()) return openScreen().size().width;
  const columns = Number(Deno.env.get("COLUMNS"));
  return Number.isInteger(columns) && columns > 0 ? columns : otherwise;
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
export function spread(left: string, right: string, width: number, style: TextStyle): string {
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
