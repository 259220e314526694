// Puts screens on a terminal without flicker, and gives the terminal back as it was. Imports nothing.
import { cleanButColours } from "../../terminal.ts";

export interface Screen {
  /** Draws over what is there: lines as wide as the screen, of which only those that differ are sent. */
  draw(lines: readonly string[]): void;
  /** Forgets what is there: after a resize, or when another program had the terminal. */
  stale(): void;
  size(): { width: number; height: number };
  close(): void;
}

const ESC = "\x1b[";
/** Another buffer, empty; no cursor, no wrapping at the last column. */
const ENTER = `${ESC}?1049h${ESC}?25l${ESC}?7l${ESC}2J`;
const LEAVE = `${ESC}?7h${ESC}?25h${ESC}?1049l`;
/** Terminals that know it show everything between the two at once. */
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

/** Calls `pressed` for each key; false where keys can't be had (a pipe). */
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

/** Line by line again, as a shell expects. */
export function leaveKeys(): void {
  try {
    if (Deno.stdin.isTerminal()) Deno.stdin.setRaw(false);
  } catch {
    // the terminal went away
  }
}
