// Runs a sweep on this machine, some runs at a time, each a process with its own output file.
import { join } from "../../../deps/path.ts";
import { EXIT } from "../../base/errors.ts";
import { formatDuration } from "../../base/format.ts";

export interface LocalRun {
  readonly run: string;
  readonly command: readonly string[];
}

export interface LocalOptions {
  readonly atOnce: number;
  readonly folder: string;
  readonly say: (line: string) => void;
}

/** Returns the first code that is not 0, or 75 after a stop. A failed run does not stop the others. */
export async function runLocally(
  runs: readonly LocalRun[],
  { atOnce, folder, say }: LocalOptions,
): Promise<number> {
  const children = new Set<Deno.ChildProcess>();
  let stopping = false, code: number = EXIT.done, next = 0;
  const stop = (signal: Deno.Signal) => () => {
    if (!stopping) say(`${signal}: no further run is begun, and those under way stop after a save.`);
    stopping = true;
    for (const child of children) end(child, signal);
  };
  // The terminal sends Ctrl-C to all its processes; a second one would cut their saves short.
  const passOn = (["SIGTERM", "SIGUSR1"] as const).map((signal) => [signal, stop(signal)] as const);
  const handlers = [["SIGINT", () => stopping = true] as const, ...passOn];
  for (const [signal, handler] of handlers) Deno.addSignalListener(signal, handler);
  const work = async () => {
    while (!stopping && next < runs.length) {
      const number = ++next;
      const ended = await one(runs[number - 1], { number, of: runs.length, folder, say, children });
      if (code === EXIT.done) code = ended;
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(atOnce, runs.length) }, work));
  } finally {
    for (const [signal, handler] of handlers) Deno.removeSignalListener(signal, handler);
  }
  return stopping ? EXIT.stopped : code;
}

interface Turn extends Pick<LocalOptions, "folder" | "say"> {
  readonly number: number;
  readonly of: number;
  readonly children: Set<Deno.ChildProcess>;
}

async function one({ run, command }: LocalRun, { number, of, folder, say, children }: Turn): Promise<number> {
  const path = join(folder, `${run}.out`);
  const began = performance.now();
  say(`[${number}/${of}] ${run} begins; its output goes to ${path}`);
  const file = await Deno.open(path, { write: true, create: true, append: true });
  try {
    const [program, ...args] = command;
    const child = new Deno.Command(program, { args, stdin: "null", stdout: "piped", stderr: "piped" })
      .spawn();
    children.add(child);
    await Promise.all([copy(child.stdout, file), copy(child.stderr, file)]);
    const { code } = await child.status;
    children.delete(child);
    const took = formatDuration((performance.now() - began) / 1000);
    say(
      `[${number}/${of}] ${run} ${
        code === 0 ? "is done" : code === EXIT.stopped ? "has stopped" : `failed with code ${code}`
      } after ${took}`,
    );
    return code;
  } finally {
    file.close();
  }
}

async function copy(from: ReadableStream<Uint8Array>, to: Deno.FsFile): Promise<void> {
  for await (const chunk of from) {
    for (let done = 0; done < chunk.length;) done += to.writeSync(chunk.subarray(done));
  }
}

function end(child: Deno.ChildProcess, signal: Deno.Signal): void {
  try {
    child.kill(signal);
  } catch {
    // it has ended by itself
  }
}
