// What ranks print: to the screen, with the rank before it where it is not rank 0, and into logs/<run>/rank-K.log.
// Imports nothing of ours.
import { clean } from "../../terminal.ts";
import { join } from "../../../deps/path.ts";

export type Stream = "out" | "err";

export interface Output {
  line(rank: number, stream: Stream, text: string): void;
  /** From now on, and what came before, is also written to files there. */
  keepIn(logs: string): void;
}

/** Before the run has a folder: what a rank says until then is little, but a mistake could say much. */
const HELD_LINES = 2000;

export function openOutput(write: (stream: Stream, text: string) => void = toScreen): Output {
  let logs: string | null = null;
  const held: [rank: number, text: string][] = [];
  const errors = new Map<string, number>();
  const keep = (rank: number, text: string) => {
    try {
      Deno.writeTextFileSync(join(logs!, `rank-${rank}.log`), `${text}\n`, { append: true });
    } catch { /* a full disk is no reason to end a run: whoever saves tells of it */ }
  };
  return {
    line(rank, stream, text) {
      if (logs !== null) keep(rank, text);
      else if (held.length < HELD_LINES) held.push([rank, text]);
      if (stream === "err" && saidBefore(errors, rank, text)) return;
      write(stream, rank === 0 ? `${text}\n` : `[rank ${rank}] ${text}\n`);
    },
    keepIn(folder) {
      logs = folder;
      for (const [rank, text] of held.splice(0)) keep(rank, text);
    },
  };
}

/** An error that all ranks meet is shown once: each rank's file has it. */
function saidBefore(errors: Map<string, number>, rank: number, text: string): boolean {
  if (!text.startsWith("hpctrain: ")) return false;
  const bare = withoutRank(text.slice("hpctrain: ".length));
  const first = errors.get(bare);
  if (first === undefined) errors.set(bare, rank);
  return first !== undefined && first !== rank;
}

/** Ranks that train together say who they are. */
const withoutRank = (sentence: string): string =>
  sentence.replace(/^Rank \d+ on \S+(: | failed first, at step \d+: )/, "");

function toScreen(stream: Stream, text: string): void {
  const to = stream === "out" ? Deno.stdout : Deno.stderr;
  const bytes = new TextEncoder().encode(clean(text));
  try {
    for (let at = 0; at < bytes.length;) at += to.writeSync(bytes.subarray(at));
  } catch { /* nobody reads any more: the run goes on */ }
}

/** Lines of a pipe until nobody holds its other end. */
export async function readLines(path: string, line: (text: string) => void): Promise<void> {
  using pipe = await Deno.open(path); // waits for the writer
  const decoder = new TextDecoder(), buffer = new Uint8Array(65536);
  let rest = "";
  for (let got; (got = await pipe.read(buffer)) !== null;) {
    const lines = (rest + decoder.decode(buffer.subarray(0, got), { stream: true })).split("\n");
    rest = lines.pop()!;
    lines.forEach(line);
  }
  if (rest !== "") line(rest);
}
