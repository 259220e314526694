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

/** The columns of the terminal; where the output is none, COLUMNS says them, or it is `otherwise`. */
export function widthOf(otherwise: number): number {
  if (Deno.stdout.isTerminal()) return openScreen().size().width;
  const columns = Number(Deno.env.get("COLUMNS"));
  return Number.isInteger(columns) && columns > 0 ? columns : otherwise;
}
