// The two programs of the loader benchmark, as commands. May import its siblings.
import { join } from "@std/path";
import { linesOf } from "./contestant.ts";
import { COMMON, type DataSet } from "./loader_sets.ts";

export interface Sides {
  /** What bench/loader_worker.ts was compiled to, or how it is run. */
  readonly worker: readonly string[];
  readonly python: string;
  /** The folder with the files. */
  readonly data: string;
}

/** What both can be asked to do: bench/peers/loader.py says what it is. */
export type What = "rounds" | "moments" | "first";
type Command = [program: string, args: string[]];

const peer = new URL("peers/loader.py", import.meta.url).pathname;

/** With a loader thread for each core, unless told. */
export function ours(
  { worker, data }: Sides,
  set: DataSet,
  what: What,
  workers = navigator.hardwareConcurrency,
): Command {
  const path = join(data, set.packed ?? set.file);
  const flags = [...COMMON, ...set.flags, "--data-path", path, "--num-workers", String(workers)];
  return ["env", [...set.variables ?? [], ...worker, what, ...flags]];
}

export function pytorch(
  { python, data }: Sides,
  { kind, file }: DataSet,
  what: What,
  workers: number,
): Command {
  // More workers than cores are tried because people do; the warning about it is not news.
  return [python, ["-W", "ignore", "-B", peer, kind, join(data, file), String(workers), what]];
}

/** What a program says in one line of JSON, and the seconds from its start until it said so. */
export async function answerOf<T>([program, args]: Command): Promise<{ said: T; seconds: number }> {
  const began = performance.now();
  const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" }).spawn();
  const complaint = new Response(child.stderr).text();
  let said: T | undefined, seconds = NaN;
  for await (const line of linesOf(child.stdout)) {
    if (said !== undefined || !line.startsWith("{")) continue;
    said = JSON.parse(line);
    seconds = (performance.now() - began) / 1000;
  }
  const { success } = await child.status;
  if (success && said !== undefined) return { said, seconds };
  throw new Error(`${[program, ...args].join(" ")} failed: ${(await complaint).trim().slice(-2000)}`);
}
