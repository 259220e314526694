// What a terminal would show of a run's output: pieces joined to lines, and what "\r" wrote over. Imports nothing.

export type Stream = "stdout" | "stderr";

export interface ConsoleLine {
  readonly stream: Stream;
  /** Unix seconds of its first piece. */
  readonly t: number;
  text: string;
  whole: boolean;
}

export interface Console {
  write(stream: Stream, t: number, text: string): void;
  /** Lines that will not change any more, in their order, which are given once. */
  take(): ConsoleLine[];
  /** What is still open is whole now. */
  end(): void;
}

/** As wide as W&B's own. */
const MAX_COLUMNS = 4096;

export function openConsole(): Console {
  let lines: ConsoleLine[] = [];
  const open: Partial<Record<Stream, { line: ConsoleLine; cells: string[]; column: number }>> = {};

  function close(stream: Stream, t: number): void {
    const at = open[stream];
    if (at) at.line.whole = true;
    else lines.push({ stream, t, text: "", whole: true });
    delete open[stream];
  }

  function put(stream: Stream, t: number, cell: string): void {
    let at = open[stream];
    if (!at) {
      at = { line: { stream, t, text: "", whole: false }, cells: [], column: 0 };
      open[stream] = at;
      lines.push(at.line);
    }
    if (at.column < MAX_COLUMNS) at.cells[at.column++] = cell;
  }

  return {
    write(stream, t, text) {
      for (const [cell] of text.matchAll(CELLS)) {
        if (cell === "\n") finish(stream, t);
        else if (cell === "\r") rewind(stream);
        else if (ERASE.test(cell)) erase(stream);
        else put(stream, t, cell);
      }
      const at = open[stream];
      if (at) at.line.text = at.cells.join("");
    },
    take() {
      const count = lines.findIndex(({ whole }) => !whole);
      const whole = count < 0 ? lines : lines.slice(0, count);
      lines = count < 0 ? [] : lines.slice(count);
      return whole;
    },
    end() {
      for (const stream of ["stdout", "stderr"] as const) if (open[stream]) close(stream, 0);
    },
  };

  function finish(stream: Stream, t: number): void {
    const at = open[stream];
    if (at) at.line.text = at.cells.join("");
    close(stream, t);
  }

  function rewind(stream: Stream): void {
    const at = open[stream];
    if (at) at.column = 0;
  }

  function erase(stream: Stream): void {
    const at = open[stream];
    if (at) at.cells.length = at.column;
  }
}

/** One character, with the escape sequences before it, which take no place. */
// deno-lint-ignore no-control-regex
const CELLS = /\n|\r|\x1b\[[0-2]?K|(?:\x1b\[[0-9;]*m)*[^\n\r\x1b]|(?:\x1b\[[0-9;]*m)+/gu;
// deno-lint-ignore no-control-regex
const ERASE = /^\x1b\[[0-2]?K$/;
